"""A server on a free port of this machine, in a thread."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

from fastapi import FastAPI

from longspan.web.serving import address_of, bound_socket, server_of


@contextmanager
def serving(app: FastAPI) -> Generator[str]:
    """The address of a server, without a slash at its end, which stops when this ends."""
    listener: socket.socket = bound_socket("127.0.0.1", 0)
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield address_of(listener, "127.0.0.1").rstrip("/")
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
