"""Transformers that read long documents, at linear cost."""

from longspan.attention.attend import attend as attend
from longspan.attention.attend import attend_global as attend_global
from longspan.attention.pattern import Pattern as Pattern

__version__ = "0.1.0"
