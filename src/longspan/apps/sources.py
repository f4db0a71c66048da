"""What a source of a model is: the folder of a run, the folder of a model, or a name on the Hub."""

from pathlib import Path
from typing import Any, Literal, cast

from transformers import PreTrainedTokenizerBase

from longspan.conversion.loading import load_tokenizer


def run_of(source: str) -> tuple[Path | None, Literal["best", "last"]]:
    """The run that a folder is, or whose model it is, and which of its models; None where there is no run."""
    path = Path(source)
    if (path / "config.yaml").exists():
        return path, "best" if (path / "best").exists() else "last"
    whole = path.resolve()
    if whole.name in ("best", "last") and (whole.parent / "config.yaml").exists():
        return whole.parent, cast(Any, whole.name)
    return None, "best"


def tokenizer_of(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model.

    Raises:
        ValueError: it has none.
    """
    tokenizer = load_tokenizer(source)
    if tokenizer is None:
        raise ValueError(f"{source!r} has no tokenizer; a model that reads documents must have one")
    return tokenizer
