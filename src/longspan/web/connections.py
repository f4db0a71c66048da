"""Connections of clients: room for so many, which those that are being answered keep.

A socket costs a client nothing, so nobody may have to wait for those who opened one and send nothing. For
every connection beyond the room, one is closed whose client owes something, a request or the rest of one: the
one where nothing came or went for longest. What is answered, or waits for its turn, is never closed for
another; where all are of that kind, the newest is closed.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 160
"""Some systems let a process have 256 open files."""
NEWCOMERS = 64
"""Connections that are taken at a time, before one of them is looked at."""


class Connection(H11Protocol):
    """A client's connection, which makes room for itself when it comes."""

    _stirred = 0.0
    """When the client last sent something, or had all of its answer, in seconds of the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stirred = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            ours = (one for one in self.connections if isinstance(one, Connection))
            # Itself among them.
            silent = (one for one in ours if one._is_waited_for())
            min(silent, key=lambda one: one._stirred).transport.close()

    def data_received(self, data: bytes) -> None:
        self._stirred = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        # Whoever waited for minutes was not silent.
        self._stirred = self.loop.time()
        super().on_response_complete()

    def _is_waited_for(self) -> bool:
        """Whether it is the client's turn: its requests are answered, or the last one is not whole."""
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            return False
        # uvicorn has no cycle before the first request.
        if not self.cycle or self.cycle.response_complete:
            return True
        # Where the server has stopped taking in what is sent, it is not the client that owes something.
        return self.cycle.more_body and not self.flow.read_paused
