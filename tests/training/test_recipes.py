"""The recipes and the samples that are published, and every task from its sample to predictions."""

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from longspan.data import formats
from longspan.data.formats import FormatName
from longspan.models.causal_lm_config import growing_windows
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
    assert recipe.settings.max_length <= (recipe.model.max_length or 4096)
    for stage in stages_of(recipe):
        batch = stage.recipe.batch
        assert (batch.micro_tokens or batch.tokens) <= batch.tokens


@pytest.mark.parametrize("script", ["tables", "char_lm_tables", "kinds_tables"])
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
        assert recipe.data.root == "data" and recipe.run.precision == "bf16"
        if recipe.model.source.endswith(".json"):
            assert Path(recipe.model.source).exists()
    different = [one for one in module.EXPERIMENTS if one.same_as is None]
    assert len({tuple(words) for words in commands}) == len(different)


def test_page_of_character_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "recipes")
    module = importlib.import_module("char_lm_tables")
    monkeypatch.setattr(module, "compressed", lambda data: {"xz -9e": 2.25, "zstd -19 --ultra": None})
    where = Namespace(data=tmp_path, runs=tmp_path, out=tmp_path / "page.md", precision="fp32")
    assert "## " not in module.page(where)
    for name, bits in (("table-2-staged-0", [1.5]), ("table-4-fixed-0", [2.0]), ("table-4-fixed-1", [2.2])):
        (tmp_path / name).mkdir()
        result = {"scores": {"bits_per_byte": bits[0]}, "seconds": 60}
        (tmp_path / name / "result.json").write_text(json.dumps(result))
    page = module.page(where)
    assert "| three phases, length and windows doubled | 1 | bits_per_byte 1.500 | 1.0 |" in page
    assert "| `xz -9e` | | bits_per_byte 2.250 | |" in page
    assert "| `zstd -19 --ultra` | | not available | |" in page
    assert "| fixed windows, 64 | 2 | bits_per_byte 2.100 ± 0.141 | 1.0 |" in page
    assert "recipes/cpu/char-lm-windows.yaml" in page and str(ROOT) not in page
    for folder in tmp_path.glob("table-*"):
        shutil.rmtree(folder)
    assert module.page(where) == page, "results outlive the folders of their runs"


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
    assert {path.stem for path in SAMPLES.glob("*.jsonl")} == set(recipes)
    assert sorted(recipe.task for recipe in recipes.values()) == sorted(TASKS)
    for name, recipe in recipes.items():
        assert recipe.data.format == name == TASKS[recipe.task].formats[0]


@pytest.mark.parametrize("name", sorted(task.formats[0] for task in TASKS.values()))
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
    sample = SAMPLES / f"{path.stem}.jsonl"
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
