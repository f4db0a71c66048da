"""`longspan export`: a Longformer for onnxruntime."""

from pathlib import Path

from longspan.cli.errors import FailedCheckError, require, user_mistakes
from longspan.cli.models import model_folder, quiet_transformers
from longspan.cli.options import AsJson, Flag

EXAMPLES = """\
  longspan export runs/imdb imdb-onnx
  longspan export roberta-long roberta-onnx --overwrite --json"""


def export(model: str, out: Path, *, overwrite: Flag = False, as_json: AsJson = False) -> None:
    """Write a Longformer as ONNX, and check it.

    Batch and length stay free. onnxruntime must compute what torch does, at two lengths that the export has
    not seen; otherwise nothing is written, and the exit code is 1.

    Args:
        model: folder of a Longformer or of a run, whose best model is taken, or a name on the Hub.
        out: folder for model.onnx, the tokenizer, the configuration and a card.
        overwrite: replace what is in the output folder.
        as_json: print one JSON object.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require(package, extra="onnx")
    with user_mistakes():
        folder = model_folder(model)
    import json
    from dataclasses import asdict

    from rich.console import Console

    from longspan.conversion.onnx_export import WrongExportError, export_onnx

    quiet_transformers()
    try:
        with user_mistakes(), Console(stderr=True).status(f"exporting {model}"):
            made = export_onnx(folder, out, overwrite=overwrite)
    except WrongExportError as error:
        raise FailedCheckError(f"{model} was not exported: {error}") from error
    if as_json:
        print(json.dumps({"out": str(out), **asdict(made)}))
        return
    print(f"Made     {made.kind}: {', '.join(made.outputs)}; any batch, 2 to {made.longest} tokens")
    checks = (f"{error:.1e} at {length} tokens" for length, error in made.errors.items())
    print(f"Checked  with onnxruntime against torch: differences {', '.join(checks)}")
    print(f"Written  {out}, {made.bytes / 1e6:.1f} MB")
