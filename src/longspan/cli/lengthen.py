"""`longspan lengthen`: a short pretrained model into a long one, with its tokenizer and a model card."""

from pathlib import Path
from typing import Literal

from longspan.cli.errors import user_mistakes


def lengthen(
    source: str,
    out: Path,
    *,
    max_length: int = 4096,
    window: int = 512,
    into: Literal["auto", "longformer", "led", "same"] = "auto",
    positions: Literal["copy", "random", "interpolate"] = "copy",
    seed: int = 0,
    overwrite: bool = False,
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
    """
    from time import perf_counter

    from longspan.conversion.whole_directory import check_target

    begin = perf_counter()
    with user_mistakes():
        check_target(out, source=Path(source), overwrite=overwrite)
    from rich.console import Console
    from transformers.utils import logging

    from longspan.conversion.lengthen import lengthen
    from longspan.conversion.saving import save_lengthened

    # What transformers says about missing and unused weights is checked, or does not matter, here.
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with Console(stderr=True).status(f"lengthening {source}"), user_mistakes():
        model = lengthen(source, max_length, window, into=into, positions=positions, seed=seed)
        tokenizer = save_lengthened(model, out, tokenizer_source=source, overwrite=overwrite)
    console = Console(soft_wrap=True, highlight=False)
    made = model.config.longspan
    console.print(f"From       {made['source_class']} of {source}", markup=False)
    console.print(
        f"Made       {type(model).__name__}: {max_length} tokens, window {window}, "
        f"{model.num_parameters() / 1e6:.1f}M parameters",
        markup=False,
    )
    said = f"{type(tokenizer).__name__} of {source}" if tokenizer else f"none: {source} has none"
    console.print(f"Tokenizer  {said}", markup=False)
    console.print(f"Written    {out} in {perf_counter() - begin:.1f} s", markup=False)
