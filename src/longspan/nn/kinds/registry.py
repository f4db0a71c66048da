"""The kinds of attention by the names that configurations know them by."""

from collections.abc import Mapping

from longspan.nn.kinds.kind import Kind
from longspan.nn.kinds.linformer import Linformer
from longspan.nn.kinds.patterned import Full, Window
from longspan.nn.kinds.performer import Performer

KINDS: Mapping[str, type[Kind]] = {kind.name: kind for kind in (Full, Window, Linformer, Performer)}
