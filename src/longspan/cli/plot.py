"""`longspan plot`: pictures of who sees whom, and of how training went."""

from pathlib import Path

from cyclopts import App

from longspan.cli.errors import UsageError, require, user_mistakes
from longspan.cli.options import Numbers, Out
from longspan.cli.registering import LOOKING, add

PATTERN_EXAMPLES = """\
  longspan plot pattern
  longspan plot pattern --left 4 --globals 0 --layers 6 --out pattern.svg"""
RUN_EXAMPLES = """\
  longspan plot run runs/first --out first.png
  longspan plot run runs/imdb-long runs/imdb-short --out imdb.svg"""

app = App(name="plot", group=LOOKING, help="Draw attention patterns and training runs.")


def pattern(
    *,
    out: Out = Path("pattern.png"),
    left: int | None = None,
    right: int | None = None,
    dilation: int | None = None,
    globals: Numbers = (),
    length: int = 32,
    layers: int = 0,
) -> None:
    """Draw who sees whom.

    Without a window, the four patterns of the Longformer paper's figure 2. With one, that pattern.

    Args:
        out: the picture, .png or .svg.
        left: keys seen before a token.
        right: keys seen after it; as many as before it when not given; 0 is causal.
        dilation: distance between neighbouring keys of the window.
        globals: positions of global tokens.
        length: tokens.
        layers: also draw what the token in the middle depends on after each of so many layers.
    """
    require("matplotlib", extra="plots")
    from longspan.attention.pattern import Pattern
    from longspan.benchmarks.report import write_bytes
    from longspan.plots import pattern as pictures
    from longspan.plots.style import image_bytes

    with user_mistakes():
        kind = out.suffix.removeprefix(".").lower()
        if kind not in ("png", "svg"):
            raise ValueError(f"--out is {out}; its name must end with .png or .svg")
        if left is None and right is None:
            if dilation is not None or globals or layers:
                raise ValueError("--dilation, --globals and --layers belong to a window: give --left too")
            figure = pictures.draw_paper()
        else:
            sides = {"left": right if left is None else left, "right": left if right is None else right}
            layer = pictures.Layer(
                pattern=Pattern(**sides, dilation=1 if dilation is None else dilation),
                length=length,
                globals=globals,
            )
            figure = pictures.draw_layer(layer, layers)
    write_bytes(out, image_bytes(figure, kind))
    print(f"Picture: {out}")


def run(*folders: Path, out: Out = Path("run.png")) -> None:
    """Draw how training went: loss, scores, learning rate and speed against the step.

    Args:
        folders: of one run, or of several to compare.
        out: the picture, .png or .svg.
    """
    require("matplotlib", extra="plots")
    if not folders:
        raise UsageError("no run is given; name the folder of at least one")
    from longspan.plots.run import plot_run

    with user_mistakes():
        plot_run(folders, out)
    print(f"Picture: {out}")


add(app, pattern, PATTERN_EXAMPLES)
add(app, run, RUN_EXAMPLES)
