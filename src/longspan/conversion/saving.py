"""Writes a lengthened model as a folder that says what it is: weights, tokenizer, model card."""

import os
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from longspan.conversion.loading import load_tokenizer
from longspan.conversion.model_card import licence_of, model_card
from longspan.conversion.whole_directory import check_target, written_whole


def save_lengthened(
    model: PreTrainedModel,
    out: str | os.PathLike[str],
    *,
    tokenizer_source: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> PreTrainedTokenizerBase | None:
    """Saves what `lengthen` made; ``out`` appears whole or not at all.

    Args:
        model: made by `lengthen`.
        out: the folder to write.
        tokenizer_source: the short model's folder, or name on the Hub, for its tokenizer and licence.
        overwrite: whether what is in ``out`` may be replaced.

    Returns:
        The tokenizer that was written with the model; None where ``tokenizer_source`` has none.

    Raises:
        ValueError: the model was not made by `lengthen`, or ``out`` cannot be written.
    """
    made = getattr(model.config, "longspan", None)
    if not made:
        raise ValueError(f"model is a {type(model).__name__} that lengthen did not make")
    source = None if tokenizer_source is None else Path(tokenizer_source)
    check_target(Path(out), source=source, overwrite=overwrite)
    tokenizer = None if tokenizer_source is None else load_tokenizer(tokenizer_source)
    with written_whole(Path(out)) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            _set_length(tokenizer, made["max_length"])
            tokenizer.save_pretrained(folder)
        licence = None if source is None else licence_of(source)
        card = model_card(model, title=Path(out).resolve().name, licence=licence)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return tokenizer


def _set_length(tokenizer: PreTrainedTokenizerBase, length: int) -> None:
    tokenizer.model_max_length = length
    # Sentence encoders also keep a length of their own, where their tokenizer cuts a text.
    if "max_length" in tokenizer.init_kwargs:
        tokenizer.init_kwargs["max_length"] = length
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and backend.truncation is not None:
        backend.enable_truncation(**{**backend.truncation, "max_length": length})
