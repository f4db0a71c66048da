"""`longspan bench`: attention beside its alternatives; the kernel and whole models against their bars."""

from cyclopts import App

from longspan.cli import bench_bars, bench_scaling
from longspan.cli.registering import LOOKING, add

EXAMPLES = {
    bench_scaling.attention: """\
  longspan bench attention --quick
  longspan bench attention --lengths 1024 4096 --only native hf --out results""",
    bench_bars.kernel: """\
  longspan bench kernel --only shares memory
  longspan bench kernel --json > kernel.json""",
    bench_bars.model: """\
  longspan bench model --only documents
  longspan bench model --layers 2 --hidden-size 64 --heads 4 --window 32 --length 64""",
    bench_bars.training: """\
  longspan bench training --only fp32 --profile""",
    bench_bars.char_lm: """\
  longspan bench char-lm --quick
  longspan bench char-lm --only generation""",
    bench_bars.led: """\
  longspan bench led --quick
  longspan bench led --only encoder writing --length 4096""",
    bench_scaling.kinds: """\
  longspan bench kinds --quick
  longspan bench kinds --only window linformer --lengths 1024 4096""",
}

app = App(name="bench", group=LOOKING, help="Measure speed and memory.")
for command, examples in EXAMPLES.items():
    add(app, command, examples)
