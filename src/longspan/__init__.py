"""Transformers that read long documents, at linear cost.

The names below are imported when they are first used, so that `longspan --help` does not wait for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longspan.attention.attend import attend as attend
    from longspan.attention.attend import attend_global as attend_global
    from longspan.attention.pattern import Pattern as Pattern

__version__ = "0.1.0"

__all__ = ["Pattern", "attend", "attend_global"]

_HOME = {
    "Pattern": "longspan.attention.pattern",
    "attend": "longspan.attention.attend",
    "attend_global": "longspan.attention.attend",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'longspan' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOME))
