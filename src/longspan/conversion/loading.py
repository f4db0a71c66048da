"""A short model and its tokenizer, from a folder or from the Hub.

Refused are checkpoints that lack weights of the class they name: a head of random numbers is not
worth lengthening. A missing pooler is left away.
"""

import os
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from longspan.conversion import into_led, into_longformer
from longspan.models.auto import register_auto_classes
from longspan.models.compact_loading import load_pretrained
from longspan.models.hub import model_fields, without_waiting

_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
    "source.spm",
)


def load_source(path: str | os.PathLike[str], **kwargs: Any) -> PreTrainedModel:
    """Loads a model as the class that its configuration names.

    Args:
        path: a folder, or a name on the Hub.
        **kwargs: of ``from_pretrained``.

    Raises:
        ValueError: there is no model, or it is not complete.
    """
    name = os.fspath(path)
    fields = model_fields(name)
    try:
        model, info = load_pretrained(_class_of(fields), name, output_loading_info=True, **kwargs)
    except OSError as error:
        raise ValueError(f"no model can be loaded from {name!r}: {' '.join(str(error).split())}") from error
    missing = sorted(info["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing):
        model.pooler = None
    elif missing:
        raise ValueError(
            f"{name!r} lacks weights of {type(model).__name__}: {', '.join(missing[:4])}"
            f"{', ...' if len(missing) > 4 else ''}; load it as a class that it has all weights of"
        )
    if model.config.model_type == "bert" and getattr(model.config, "sep_token_id", None) is None:
        tokenizer = load_tokenizer(path)
        model.config.sep_token_id = None if tokenizer is None else tokenizer.sep_token_id
    return model


def load_tokenizer(path: str | os.PathLike[str]) -> PreTrainedTokenizerBase | None:
    """Loads the tokenizer of a model, or None where there is none.

    Args:
        path: a folder, or a name on the Hub.
    """
    folder = Path(path)
    # Without a vocabulary transformers would make an empty tokenizer.
    if folder.is_dir() and not any((folder / name).exists() for name in _VOCABULARIES):
        return None
    register_auto_classes()  # transformers asks for the type of the model first, and warns of unknown ones
    try:
        with without_waiting(path):
            return AutoTokenizer.from_pretrained(os.fspath(path))
    except OSError:
        return None


def _class_of(fields: dict[str, Any]) -> Any:
    """A class with ``from_pretrained``; ours for a Longformer and an LED."""
    names = fields.get("architectures") or ["AutoModel"]
    ours = {kind.__name__: kind for kind in (*into_longformer.CLASSES.values(), *into_led.CLASSES.values())}
    kind = ours.get(names[0]) or getattr(transformers, names[0], None)
    if kind is None:
        raise ValueError(f"architectures in its configuration is {names}; transformers has no {names[0]}")
    return kind if names[0] != "AutoModel" else AutoModel
