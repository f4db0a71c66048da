"""The recipes and the samples that are published, and every task from its sample to predictions."""

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from longspan.data import formats
from longspan.data.format_names import FormatName
from longspan.models.causal_lm_config import LongformerCausalLMConfig, growing_windows
from longspan.tasks.classification import ClassificationSettings
from longspan.tasks.extractive_qa import ExtractiveQASettings
from longspan.tasks.registry import TASKS
from longspan.training.inference import Predictor, read_examples
from longspan.training.loop import train
from longspan.training.metrics_log import read_metrics
from longspan.training.recipe import read_recipe
from longspan.training.schedules import warmup_steps
from longspan.training.stages import stages_of
from tests.tasks.tiny import tiny_causal_lm, tiny_led, tiny_longformer
from tests.training.runs import write_recipe

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
RECIPES = sorted([*(ROOT / "recipes").rglob("*.yaml"), *SAMPLES.glob("*.yaml")])
TARGETS = {
    "classification": ("label",),
    "qa": ("answers", "spans", "is_impossible"),
    "candidates": ("answer",),
    "hotpotqa": ("answer", "supporting_facts", "type"),
    "coreference": ("clusters",),
    "tagging": ("tags",),
    "summarization": ("summary", "summaries"),
    "extractive-summarization": ("summary", "summaries"),
    "masked-lm": (),
    "causal-lm": (),
}
"""What a sample has that somebody who asks for predictions does not know."""
SAID = {
    "classification": {"label", "probabilities"},
    "qa": {"answer", "document", "start", "end", "score"},
    "candidates": {"answer", "scores"},
    "hotpotqa": {"answer", "supporting_facts", "paragraphs"},
    "coreference": {"clusters", "mentions"},
    "tagging": {"words", "tags"},
    "summarization": {"summary"},
    "extractive-summarization": {"summary", "sentences"},
    "masked-lm": {"masks", "loss", "tokens", "right", "characters"},
    "causal-lm": {"loss", "tokens", "bytes", "characters"},
}
"""The fields of a prediction beside its id, as docs/tasks.md has them."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_longformer(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def causal_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal_lm(tmp_path_factory.mktemp("causal"))


@pytest.fixture(scope="module")
def led_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_led(tmp_path_factory.mktemp("led"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_recipes_are_right(path: Path) -> None:
    recipe = read_recipe(path)
    # What a reader's stage begins from was lengthened by reader-mlm.yaml.
    own = 16384 if recipe.model.source.startswith("runs/reader") else 4096
    assert recipe.settings.max_length <= (recipe.model.max_length or own)
    for stage in stages_of(recipe):
        batch = stage.recipe.batch
        assert (batch.micro_tokens or batch.tokens) <= batch.tokens


PAIRS = {
    "tables 2 and 12": ("char-lm-small", "char-lm"),
    "table 3": ("char-lm-large", "char-lm"),
    "table 4": ("char-lm-windows", "char-lm-windows"),
    "table 5, before": ("pretrain", "mlm-head"),
    "table 5": ("pretrain", "mlm-continue"),
    "table 5, positions": ("pretrain-positions", "mlm-continue"),
    "table 7, WikiHop": ("wikihop", "wikihop"),
    "table 7, TriviaQA": ("triviaqa", "triviaqa"),
    "table 7, HotpotQA": ("hotpotqa", "hotpotqa"),
    "table 7, OntoNotes": ("ontonotes", "litbank"),
    "table 7, IMDB": ("imdb", "imdb"),
    "table 7, Hyperpartisan": ("hyperpartisan", "hyperpartisan"),
    "table 8, WikiHop": ("wikihop-large", "wikihop"),
    "table 8, TriviaQA": ("triviaqa-large", "triviaqa"),
    "tables 8 and 9, HotpotQA": ("hotpotqa-large", "hotpotqa"),
    "table 10": ("wikihop-ablations", "wikihop"),
    "table 11 and figure 3": ("arxiv", "led"),
}
"""The paper's experiments, each with its own recipe and the one in small."""


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_experiment_has_two_recipes(pair: tuple[str, str]) -> None:
    paper, small = (
        read_recipe(ROOT / "recipes" / folder / f"{name}.yaml")
        for folder, name in zip(("paper", "cpu"), pair, strict=True)
    )
    assert paper.task == small.task
    # The paper's are for GPUs, begin from published weights and read everything.
    assert paper.run.precision == "bf16" and paper.data.train_limit is None
    page = (ROOT / "recipes/README.md").read_text()
    assert all(f"`{name}`" in page for name in pair)


def test_every_recipe_of_the_paper_is_in_a_pair() -> None:
    listed = {paper for paper, _ in PAIRS.values()}
    assert {path.stem for path in (ROOT / "recipes/paper").glob("*.yaml")} == listed


@pytest.mark.parametrize(
    ("name", "source", "epochs", "lr", "warmup"),
    [
        ("wikihop", "base", 15, 3e-5, 200),
        ("wikihop-large", "large", 5, 3e-5, 200),
        ("wikihop-ablations", "base", 5, 3e-5, 200),
        ("triviaqa", "base", 5, 3e-5, 1000),
        ("triviaqa-large", "large", 5, 3e-5, 1000),
        ("hotpotqa", "base", 5, 3e-5, 1000),
        ("hotpotqa-large", "large", 5, 3e-5, 1000),
    ],
)
def test_table_14(name: str, source: str, epochs: int, lr: float, warmup: int) -> None:
    recipe = read_recipe(ROOT / f"recipes/paper/{name}.yaml")
    assert recipe.model.source == f"allenai/longformer-{source}-4096"
    assert (recipe.run.epochs, recipe.optimizer.lr, recipe.schedule.warmup) == (epochs, lr, warmup)
    # 32 questions a step: none of them may be cut into several inputs.
    assert recipe.batch.examples == 32 and recipe.batch.tokens == 32 * 4096
    if isinstance(recipe.settings, ExtractiveQASettings):
        assert recipe.settings.join_documents and recipe.settings.max_windows == 1


def test_imdb_is_not_chosen_on_its_test_part() -> None:
    data = read_recipe(ROOT / "recipes/paper/imdb.yaml").data
    assert data.dev is not None and data.test is not None
    assert [where.partition("#")[2] for where in (data.train, data.dev, data.test)] == ["fit", "dev", "test"]


@pytest.mark.parametrize("folder", ["paper", "cpu"])
def test_hyperpartisan_is_scored_by_its_positive_class(folder: str) -> None:
    settings = read_recipe(ROOT / f"recipes/{folder}/hyperpartisan.yaml").settings
    assert isinstance(settings, ClassificationSettings) and settings.positive == "true"


def test_table_4_of_the_paper() -> None:
    recipe = read_recipe(ROOT / "recipes/paper/char-lm-windows.yaml")
    (phase,) = recipe.phases
    assert (phase.steps, phase.max_length, phase.windows) == (150_000, 2048, (32, 512))
    undilated = LongformerCausalLMConfig.from_json_file(ROOT / recipe.model.source)
    small = LongformerCausalLMConfig.named("char-lm-small")
    changed = {name for name, value in small.to_dict().items() if undilated.to_dict().get(name) != value} - {
        "transformers_version"
    }
    assert changed == {"attention_window", "attention_dilation"}
    assert undilated.attention_window == growing_windows(32, 512, 12)


@pytest.mark.parametrize("script", ["tables", "char_lm_tables", "summary_tables", "kinds_tables"])
def test_scripts_give_recipes_right_overrides(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module, shared = importlib.import_module(script), importlib.import_module("experiments")
    where = Namespace(data=Path("data"), runs=tmp_path, model=Path("model"), precision="bf16")
    if hasattr(module, "write_configs"):
        module.write_configs(tmp_path)
    commands = [shared.command(one, 0, where, module.model) for one in module.EXPERIMENTS]
    for words in commands:
        at = words.index("--resume") + 1
        recipe = read_recipe(Path(words[2]), words[at:])
        assert recipe.run.precision == "bf16"
        assert recipe.data.root == (str(tmp_path / "summary-data") if script == "summary_tables" else "data")
        if recipe.model.source.endswith(".json"):
            assert Path(recipe.model.source).exists()
    different = [one for one in module.EXPERIMENTS if one.same_as is None]
    assert len({tuple(words) for words in commands}) == len(different)


def test_results_of_another_program_are_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module, shared = importlib.import_module("char_lm_tables"), importlib.import_module("experiments")
    where = Namespace(data=tmp_path, runs=tmp_path, out=tmp_path / "new" / "page.md", precision="fp32")
    assert shared.all_results(module.EXPERIMENTS, where) == {}, "and the folder is made"
    bars = json.dumps({"machine": {}, "results": [{"name": "training", "value": 1.1}]})
    where.out.with_suffix(".json").write_text(bars)
    with pytest.raises(ValueError, match="belongs to another program"):
        shared.all_results(module.EXPERIMENTS, where)
    assert where.out.with_suffix(".json").read_text() == bars
    bench = (ROOT / "src/longspan/cli/bench_bars.py").read_text()
    speeds = re.search(r'out / "(char_lm\w*)\.json"', bench)
    assert speeds is not None and speeds[1] != "char_lm", "char_lm.json is that of the tables"


def test_two_heads_of_table_4_are_two_of_eight() -> None:
    fields = json.loads((ROOT / "recipes/cpu/char-lm-tiny-dilated.json").read_text())
    for dilations in fields["attention_dilation"][2:]:
        assert [one > 1 for one in dilations] == [True] * 2 + [False] * 6


def test_page_of_summaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module = importlib.import_module("summary_tables")
    # Two papers, the first three of whose sentences are the whole of them.
    folder = tmp_path / "data/papers"
    folder.mkdir(parents=True)
    texts = [
        {"id": at, "text": f"One {at}. Two. Three.", "summary": f"One {at}. Two. Three."} for at in range(40)
    ]
    (folder / "papers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in texts))
    source = module.summary_data.Source("summarization", "papers/papers.jsonl")
    monkeypatch.setattr(module.summary_data, "SOURCES", {"papers": source})
    where = Namespace(data=tmp_path / "data", runs=tmp_path, out=tmp_path / "page.md", test=2, only=[])
    page = module.page(where)
    assert "## Papers (summarization), 2 documents, references of 4 words" in page
    assert "| first three sentences | 2 | 100.0 | 100.0 | 100.0 | 100.0 | 4 |  |" in page
    module.summary_data.write(where.data, tmp_path / "summary-data")
    for part, count in (("train", 32), ("dev", 4)):
        lines = (tmp_path / "summary-data" / f"{part}.jsonl").read_text().splitlines()
        assert len(lines) == count and json.loads(lines[0])["id"].startswith("papers/")

    kept = json.loads((tmp_path / "page.json").read_text())
    lead = kept["scores/lead/papers"]
    lead["each"] = {str(at): [0.5, 0.5, 0.5, 0.5] for at in range(20)}
    for length, better in (("1024", -0.1), ("4096", 0.0), ("16384", 0.1)):
        each = {
            id: [x[0] + better, x[1] + (-1) ** int(id) * 0.2, x[2], x[3]] for id, x in lead["each"].items()
        }
        kept[f"scores/summaries-led-{length}-0/papers"] = lead | {"each": each}
        kept[f"summaries-led-{length}-0"] = {"scores": {}, "seconds": 120}
    (tmp_path / "page.json").write_text(json.dumps(kept))
    page = module.page(where)
    assert "| LED that writes, 1,024 tokens | 2 | 100.0 | 100.0 | 100.0 | 100.0 | 4 | 2 |" in page
    assert "- LED that writes, 1,024 tokens: ROUGE-1 -10.0 (-10.0 to -10.0), ROUGE-2 +0.0 (-" in page
    verdicts = [line.rpartition(": ")[2] for line in page.splitlines() if line.startswith(("- LED", "LED"))]
    assert verdicts == [
        "**worse** in ROUGE-1.",
        "**no difference** beyond chance.",
        "**better** in ROUGE-1.",
        "**a gain** in ROUGE-1.",
    ]
    assert "LED that writes, 16,384 tokens against 1,024: ROUGE-1 +20.0 (+20.0 to +20.0)" in page
    assert "together" not in page, "of one data set there is nothing to add"
    assert "(page-lengths.png)" in page and (tmp_path / "page-lengths.png").read_bytes()[:4] == b"\x89PNG"


def test_data_sets_together_weigh_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module = importlib.import_module("summary_page")
    level = {str(at): [0.5] * 4 for at in range(1000)}
    many = {id: [0.6] * 4 for id in level}
    few = {str(at): [0.5 - 0.2 * (at % 2)] * 4 for at in range(10)}
    one, other = (module.difference([(side, level)], "rouge_2") for side in (many, few))
    both = module.difference([(many, level), (few, level)], "rouge_2")
    assert (one.mean, other.mean) == (pytest.approx(10), pytest.approx(-10))
    assert both.mean == pytest.approx(0), "a thousand documents weigh no more than ten"
    # Only the few vary, and they are half of the mean.
    assert one.high == pytest.approx(one.low)
    assert (both.low, both.high) == (pytest.approx(5 + other.low / 2), pytest.approx(5 + other.high / 2))


def test_windows_of_table_4_have_the_same_total() -> None:
    totals = {sum(growing_windows(*ends, 4)) for ends in ((112, 16), (64, 64), (16, 112))}
    assert totals == {256}
    recipe = read_recipe(ROOT / "recipes/cpu/char-lm-windows.yaml")
    assert recipe.phases[0].windows == (16, 112)


@pytest.mark.parametrize(("size", "steps"), [("small", 570_000), ("large", 395_000)])
def test_phases_are_the_papers(size: str, steps: int) -> None:
    recipe = read_recipe(ROOT / f"recipes/paper/char-lm-{size}.yaml")
    phases = recipe.phases
    assert sum(phase.steps for phase in phases) == steps
    assert (phases[0].max_length, phases[-1].max_length) == (2048, 23040)
    assert [phase.examples for phase in phases] == [32, 32, 16, 16, 16]
    for before, after in itertools.pairwise(phases):
        assert after.lr == before.lr / 2
        assert after.windows == tuple(2 * window for window in before.windows)
    assert (phases[0].windows, phases[-1].windows) == ((32, 512), (512, 8192))
    warmups = [warmup_steps(recipe.schedule, phase.steps) for phase in phases]
    assert warmups == [min(10_000, phase.steps // 10) for phase in phases]


def test_there_is_a_sample_and_a_recipe_for_every_task() -> None:
    recipes = {path.stem: read_recipe(path) for path in SAMPLES.glob("*.yaml")}
    assert {path.name for path in SAMPLES.glob("*.jsonl")} == {one.data.train for one in recipes.values()}
    assert sorted(recipe.task for recipe in recipes.values()) == sorted(TASKS)
    for name, recipe in recipes.items():
        # Tasks that read the same have one sample, and a recipe each.
        assert name in (recipe.data.format, recipe.task)
        assert f"{recipe.data.format}.jsonl" == recipe.data.train
        assert recipe.data.format == TASKS[recipe.task].formats[0]


@pytest.mark.parametrize("name", sorted({task.formats[0] for task in TASKS.values()}))
def test_samples_are_read(name: FormatName) -> None:
    examples = list(formats.read(SAMPLES / f"{name}.jsonl", name))
    assert 6 <= len(examples) <= 12


def _arguments(model: Path, cache: Path) -> list[str]:
    """A recipe of the samples in small; its model has no room for 4,096 tokens, and needs none."""
    fields = {"model.source": model, "model.max_length": "null", "settings.max_length": 256}
    fields |= {"data.root": SAMPLES, "data.cache": cache, "run.epochs": "null", "run.steps": 2}
    return [f"--{name}={value}" for name, value in fields.items()]


def _without_targets(sample: Path, out: Path, targets: tuple[str, ...]) -> Path:
    lines = [json.loads(line) for line in sample.read_text(encoding="utf-8").splitlines()]
    asked: list[dict[str, Any]] = [
        {name: value for name, value in line.items() if name not in targets} for line in lines
    ]
    out.write_text("".join(json.dumps(line) + "\n" for line in asked), encoding="utf-8")
    return out


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_task_from_its_sample_to_predictions(
    path: Path, model: Path, causal_model: Path, led_model: Path, tmp_path: Path
) -> None:
    source = {"bytes": causal_model, "summarization": led_model}.get(path.stem, model)
    recipe = read_recipe(path, _arguments(source, tmp_path / "cache"))
    scores = train(recipe, tmp_path / "run")
    task = TASKS[recipe.task]
    assert task.best_score in scores
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2]

    predictor = Predictor(tmp_path / "run", "last")
    sample = SAMPLES / recipe.data.train
    examples = read_examples(predictor, str(sample), None)
    predictions = predictor(examples)
    # Read back from its folder, the model is the one that was scored while it was trained.
    assert predictor.task.score(examples, predictions) == pytest.approx(scores)
    assert [one["id"] for one in predictions] == [example.id for example in examples]
    assert all(set(one) == SAID[recipe.task] | {"id"} for one in predictions)

    unknown = _without_targets(sample, tmp_path / "new.jsonl", TARGETS[recipe.task])
    asked = read_examples(predictor, str(unknown), None, targets=False)
    assert json.loads(json.dumps(predictor(asked))) == json.loads(json.dumps(predictions))


def test_the_best_model_is_tested_where_weights_are_shared_out(tmp_path: Path) -> None:
    recipe, out = write_recipe(tmp_path / "recipe"), tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "longspan", "train", str(recipe), "--out", str(out), "--parallel", "fsdp"]
    command += ["--run.steps", "3", "--data.test", str(tmp_path / "recipe" / "dev.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    scores = {line["kind"]: line["macro_f1"] for line in read_metrics(out) if "macro_f1" in line}
    assert scores["test"] == scores["dev"]  # they are the same reviews
