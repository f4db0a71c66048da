"""An application on a socket, until somebody ends it."""

import socket

import uvicorn
from fastapi import FastAPI

from longspan.web.connections import NEWCOMERS, Connection

_SILENT_SECONDS = 30
"""A client that takes nothing for so long is gone, though it never hung up: a phone out of reach."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, so that its port is known, and an error comes, before anything is printed.

    Args:
        host: address or name.
        port: 0 takes a free one.

    Raises:
        ValueError: it cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Linux's; connections have it from the socket that they came in by.
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENT_SECONDS)
            # Not the port of the address: what is beyond 65,535 has come back as another there.
            listener.bind((address[0], port, *address[2:]))
            listener.listen(NEWCOMERS)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen at {host}, port {port}: {error}") from error
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """What to type into a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}/"


def server_of(app: FastAPI) -> uvicorn.Server:
    """A server that ends a moment after it is told to, whatever its clients still wait for."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            http=Connection,
            backlog=NEWCOMERS,
            timeout_graceful_shutdown=2,
        )
    )
