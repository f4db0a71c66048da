"""`from_pretrained` for folders whose weights are compact (`compact_weights.py`).

Our models find such a folder themselves; for others there is `load_pretrained`. In memory the weights are
plain again, so that a loaded model trains, and is saved, as any other. Stock transformers refuses the folder:
it finds no file of its own in it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, GenerationConfig
from transformers.utils import SAFE_WEIGHTS_NAME

from longspan.models.compact_weights import FILE, read_compact
from longspan.models.hub import without_waiting


def is_compact(source: str | os.PathLike[str] | None) -> bool:
    """Whether the weights in a folder are compact; plain ones beside them go first, as in transformers."""
    if source is None or not (Path(source) / FILE).is_file():
        return False
    return not (Path(source) / SAFE_WEIGHTS_NAME).exists()


class ReadsCompact:
    """Gives a `PreTrainedModel` that stands behind it a ``from_pretrained`` for compact weights too."""

    if not TYPE_CHECKING:  # where it has transformers' own types, which tell one model from another

        @classmethod
        def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
            """As `transformers`' own."""
            return _load(super().from_pretrained, pretrained_model_name_or_path, *args, **kwargs)


def load_pretrained(kind: Any, source: str | os.PathLike[str], **kwargs: Any) -> Any:
    """``kind.from_pretrained(source, **kwargs)``, whatever the weights are, for any class of transformers.

    Args:
        kind: a class of models, ours or not, or an Auto class.
        source: a folder, or a name on the Hub.
        **kwargs: of ``from_pretrained``.
    """
    mapping = getattr(kind, "_model_mapping", None)
    if mapping is None or not is_compact(source):
        return _load(kind.from_pretrained, source, **kwargs)
    # Auto classes want a path, and their models would look for weights there.
    dtype = {name: kwargs.pop(name) for name in ("dtype", "torch_dtype") if name in kwargs}
    read: Any = AutoConfig.from_pretrained(source, return_unused_kwargs=True, **kwargs)
    config, rest = read
    found = mapping[type(config)]
    found = found[0] if isinstance(found, tuple) else found
    return _load(found.from_pretrained, source, config=config, **rest, **dtype)


def _load(from_pretrained: Callable[..., Any], source: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_compact(source):
        with without_waiting(source):
            return from_pretrained(source, *args, **kwargs)
    # transformers takes weights without a path only, and then reads the configuration from where it is told.
    kwargs.setdefault("config", os.fspath(source))
    if (Path(source) / "generation_config.json").exists():
        kwargs.setdefault("generation_config", GenerationConfig.from_pretrained(source))
    weights = read_compact(Path(source) / FILE)
    loaded = from_pretrained(None, *args, state_dict=weights, **kwargs)
    model: Any = loaded[0] if isinstance(loaded, tuple) else loaded
    model.name_or_path = model.config.name_or_path = os.fspath(source)
    return loaded
