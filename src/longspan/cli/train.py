"""`longspan train`, `evaluate` and `predict`: recipes to models, models to scores and predictions."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from longspan.cli.errors import UsageError, user_mistakes
from longspan.cli.options import AsJson, Flag
from longspan.data.format_names import FormatName

TRAIN_EXAMPLES = """\
  longspan train samples/classification.yaml --out runs/first
  longspan train recipes/cpu/imdb.yaml --optimizer.lr 1e-4 --model.max_length null
  longspan train recipes/cpu/imdb.yaml --resume
  torchrun --nproc-per-node 4 -m longspan train recipes/paper/imdb.yaml"""
EVALUATE_EXAMPLES = """\
  longspan evaluate runs/first --data samples/classification.jsonl --json
  longspan evaluate runs/imdb --data data/imdb.jsonl#test --format imdb --out predictions.jsonl
  longspan evaluate runs/led --settings.num_beams 1 --data samples/summarization.jsonl"""
PREDICT_EXAMPLES = """\
  longspan predict runs/first --data samples/classification.jsonl
  longspan predict runs/imdb --data documents.jsonl --checkpoint last --out predictions.jsonl"""


def train(
    recipe: Path,
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    out: Path | None = None,
    resume: Flag = False,
    resume_from: Path | None = None,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    as_json: AsJson = False,
) -> None:
    """Train a model as a recipe says.

    Under torchrun the same command trains on many processes and machines.

    Args:
        recipe: a YAML file; recipes/ has one for each experiment of the Longformer paper.
        overrides: fields to change, as in --optimizer.lr 3e-5.
        out: the folder of the run; by default runs/ and the recipe's name.
        resume: go on from the newest checkpoint in the folder of the run, if there is one.
        resume_from: go on from this checkpoint.
        parallel: how processes share the work: copies of the model (ddp), or parts of it (fsdp).
        as_json: print one JSON object at the end.
    """
    from longspan.training.loop import prepared
    from longspan.training.recipe import read_recipe
    from longspan.training.tokenising import DataError

    folder = out or Path("runs") / recipe.stem
    with ExitStack() as stack:
        try:
            with user_mistakes():
                wanted = read_recipe(recipe, overrides)
                run = stack.enter_context(
                    prepared(wanted, folder, resume=resume_from or resume, parallel=parallel)
                )
            scores = run.train()
        except (DataError, OSError, FloatingPointError) as error:
            raise UsageError(str(error)) from error
    if os.environ.get("RANK", "0") == "0":  # torchrun runs this in every process
        _print(scores, as_json=as_json, out=str(folder))
        if not as_json:
            print(f"The run is in {folder}.")


def evaluate(
    run: Path,
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    data: str,
    format: FormatName | None = None,
    checkpoint: Literal["best", "last"] = "best",
    out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Score a trained model on data with answers.

    Args:
        run: the folder of a run.
        overrides: settings of the task to change, as in --settings.num_beams 1.
        data: a path, or path#part.
        format: of the data; by default that of the training data.
        checkpoint: which of the run's models.
        out: a file for the predictions, as JSONL.
        as_json: print one JSON object.
    """
    from longspan.training.inference import Predictor, read_examples

    with ExitStack() as stack:
        with user_mistakes():
            predictor = stack.enter_context(Predictor(run, checkpoint, overrides))
            examples = read_examples(predictor, data, format)
            features = predictor.features(examples)
            _make_room(out)
        predictions = predictor(examples, features)
        with user_mistakes():  # examples may lack the answers that scores need
            scores = predictor.task.score(examples, predictions)
        if not predictor.is_main:
            return
        extent = predictor.task.extent(predictions)
        _print(scores, as_json=as_json, examples=len(examples), extent=extent)
        if extent and not as_json:
            print(f"Scored: {extent}")
        if out is not None:
            _write(out, predictions)


def predict(
    run: Path,
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    data: Annotated[str, Parameter(name=("--data", "--input"))],
    out: Path | None = None,
    format: FormatName | None = None,
    checkpoint: Literal["best", "last"] = "best",
) -> None:
    """Let a trained model read new documents; what it says is a JSON object a line.

    Args:
        run: the folder of a run.
        overrides: settings of the task to change, as in --settings.num_beams 1.
        data: a file in the JSONL of the task (docs/data.md), without answers, or in another format.
        out: a file for the predictions, as JSONL; by default they are printed.
        format: of the data; by default the task's JSONL.
        checkpoint: which of the run's models.
    """
    import json

    from longspan.training.inference import Predictor, read_examples

    with ExitStack() as stack:
        with user_mistakes():
            predictor = stack.enter_context(Predictor(run, checkpoint, overrides))
            chosen = format or predictor.task.formats[0]
            examples = read_examples(predictor, data, chosen, targets=False)
            features = predictor.features(examples)
            _make_room(out)
        predictions = predictor(examples, features)
        if not predictor.is_main:
            return
        if out is None:
            for one in predictions:
                print(json.dumps(one, ensure_ascii=False))
        else:
            _write(out, predictions)


def _print(scores: dict[str, float], *, as_json: bool, **more: object) -> None:
    if as_json:
        import json

        print(json.dumps({"scores": scores, **more}))
        return
    for name, value in scores.items():
        print(f"{name}  {value:.4f}")


def _make_room(out: Path | None) -> None:
    """Makes the folder of a file to be written: what is computed first must not be lost."""
    if out is None:
        return
    if out.is_dir():
        raise ValueError(f"--out is {out}, a folder; it must be a file")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out is {out}, which cannot be written: {error.strerror}") from error


def _write(out: Path, predictions: list[dict[str, object]]) -> None:
    import json

    from longspan.training.run_folder import write_whole
    from longspan.training.write_errors import writing

    try:
        with writing(out, "--out"):
            write_whole(out, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in predictions))
    except OSError as error:
        raise UsageError(str(error)) from error
