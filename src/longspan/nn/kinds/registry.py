"""The kinds of attention by the names that configurations know them by."""

from collections.abc import Mapping

from longspan.nn.kinds.adaptive_span import AdaptiveSpan
from longspan.nn.kinds.bigbird import BigBird
from longspan.nn.kinds.blockwise import Blockwise
from longspan.nn.kinds.bp import BP
from longspan.nn.kinds.kind import Kind
from longspan.nn.kinds.linformer import Linformer
from longspan.nn.kinds.patterned import Full, Window
from longspan.nn.kinds.performer import Performer
from longspan.nn.kinds.reformer import Reformer
from longspan.nn.kinds.routing import Routing
from longspan.nn.kinds.sparse import Sparse

KINDS: Mapping[str, type[Kind]] = {
    kind.name: kind
    for kind in (
        Full,
        Window,
        Linformer,
        Performer,
        Sparse,
        AdaptiveSpan,
        Blockwise,
        BigBird,
        Routing,
        Reformer,
        BP,
    )
}
