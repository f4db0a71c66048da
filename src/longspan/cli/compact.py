"""`longspan compact`: a model in about a quarter of its size."""

from pathlib import Path

from longspan.cli.errors import user_mistakes
from longspan.cli.options import AsJson, Flag

EXAMPLES = """\
  longspan compact roberta-long roberta-small
  longspan compact runs/imdb imdb-small --json"""


def compact(
    model: Path,
    out: Path,
    *,
    overwrite: Flag = False,
    as_json: AsJson = False,
) -> None:
    """Store a model in about a byte a weight.

    Writes a folder that from_pretrained of longspan's classes, and all commands, read as any other; stock
    transformers refuses it.

    Args:
        model: folder of a model, or of a run, whose best model is taken.
        out: folder of the small one: a model, or a run that evaluate and predict take.
        overwrite: replace what is in the output folder.
        as_json: print one JSON object.
    """
    import json

    from rich.console import Console

    from longspan.conversion.compact import compact

    with user_mistakes(), Console(stderr=True).status(f"compacting {model}"):
        made = compact(model, out, overwrite=overwrite)
    largest = max(made.errors.values(), default=0.0)
    if as_json:
        sizes = {"bytes_before": made.bytes_before, "bytes_after": made.bytes_after}
        print(json.dumps({"out": str(out), **sizes, "mean_error": made.mean_error, "largest_error": largest}))
        return
    print(f"Weights  {made.bytes_before / 1e6:.1f} MB, now {made.bytes_after / 1e6:.1f} MB")
    print(f"Errors   {made.mean_error:.2%} of a matrix in the mean, {largest:.2%} at most")
    print(f"Written  {out}")
