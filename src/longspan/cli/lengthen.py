"""`longspan lengthen`: a short pretrained model into a long one, with its tokenizer and a model card."""

from pathlib import Path
from typing import Literal

from longspan.cli.errors import user_mistakes
from longspan.cli.options import AsJson, Flag, check_seed

EXAMPLES = """\
  longspan lengthen roberta-base roberta-long --max-length 4096 --window 512
  longspan lengthen facebook/bart-base led --max-length 16384 --window 1024
  longspan lengthen distilbert-base-uncased long-distilbert --into same --json"""


def lengthen(
    source: str,
    out: Path,
    *,
    max_length: int = 4096,
    window: int = 512,
    into: Literal["auto", "longformer", "led", "same"] = "auto",
    positions: Literal["copy", "random", "interpolate"] = "copy",
    seed: int = 0,
    overwrite: Flag = False,
    as_json: AsJson = False,
) -> None:
    """Make a long model of a short pretrained one.

    Writes weights, configuration, the tokenizer with its new length, and a model card. The long
    model then wants further pretraining on long documents.

    Args:
        source: folder of the short model, or its name on the Hub.
        out: folder of the long one.
        max_length: the most tokens of an input.
        window: tokens that a token sees, both sides together.
        into: longformer, led (of BART), or the same class with windowed attention; auto is the first of
            these that is possible.
        positions: embeddings of new positions: the learned ones repeated, random ones, or the learned
            ones stretched.
        seed: of random positions.
        overwrite: replace what is in the output folder.
        as_json: print one JSON object.
    """
    from time import perf_counter

    from longspan.conversion.whole_directory import check_target

    begin = perf_counter()
    with user_mistakes():
        check_seed(seed)
        check_target(out, source=Path(source), overwrite=overwrite)
    from rich.console import Console

    from longspan.cli.models import quiet_transformers
    from longspan.conversion.lengthen import lengthen
    from longspan.conversion.saving import save_lengthened

    quiet_transformers()
    with Console(stderr=True).status(f"lengthening {source}"), user_mistakes():
        model = lengthen(source, max_length, window, into=into, positions=positions, seed=seed)
        tokenizer = save_lengthened(model, out, tokenizer_source=source, overwrite=overwrite)
    kind, parameters = type(model).__name__, model.num_parameters()
    if as_json:
        import json

        made = {"out": str(out), "class": kind, "parameters": parameters, "has_tokenizer": bool(tokenizer)}
        print(json.dumps(made | model.config.longspan))
        return
    print(f"From       {model.config.longspan['source_class']} of {source}")
    print(f"Made       {kind}: {max_length} tokens, window {window}, {parameters / 1e6:.1f}M parameters")
    said = f"{type(tokenizer).__name__} of {source}" if tokenizer else f"none: {source} has none"
    print(f"Tokenizer  {said}")
    print(f"Written    {out} in {perf_counter() - begin:.1f} s")
