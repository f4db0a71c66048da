"""Clients that connect and then send nothing, or half of something: nobody else may wait for them."""

import socket
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import httpx2
import pytest

from longspan.web.app import create_app
from tests.web.asking import HEADER, add, asked, with_session
from tests.web.live import serving
from tests.web.plain_reader import PlainReader

CLIENTS = 300
"""More than the server has room for."""
COMPLETE = b"GET /api/about HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(path: str, session: str, length: int, sent: bytes) -> bytes:
    """The beginning of a request with a body."""
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"{HEADER}: {session}", f"Content-Length: {length}")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + sent


def halves(session: str) -> dict[str, bytes]:
    """What such clients send."""
    return {
        "nothing": b"",
        "half a header": COMPLETE[:30],
        "a request and half another": COMPLETE + COMPLETE[:30],
        "half a question": post("/api/readings", session, 100, b'{"question"'),
        "half a file": post("/api/documents?name=a.txt", session, 100, b"a"),
        # More than the server takes in before it is its turn.
        "half a large file": post("/api/documents?name=a.txt", session, 200_000, b"a" * 100_000),
        "half of what is not read": post("/api/nothing", session, 100, b"a"),
    }


@contextmanager
def silent(address: str, sent: bytes, number: int = CLIENTS) -> Generator[list[socket.socket]]:
    """Connections that send this and no more."""
    at = urlsplit(address)
    with ExitStack() as stack:
        clients: list[socket.socket] = []
        for _ in range(number):
            client = stack.enter_context(socket.create_connection((at.hostname, at.port), timeout=60))
            clients.append(client)
            try:
                client.sendall(sent)
            except ConnectionError:
                continue  # the server has closed it already
        yield clients


@pytest.mark.parametrize("what", halves(""))
def test_nobody_waits_for_those_who_send_nothing_more(what: str) -> None:
    with serving(create_app(PlainReader())) as address, httpx2.Client(base_url=address, timeout=60) as early:
        id = add(with_session(early)).json()["id"]
        token = early.headers[HEADER]
        with silent(address, halves(token)[what]), ExitStack() as stack:
            _let_them_arrive(address)
            for _ in range(5):
                late = httpx2.Client(base_url=address, headers={HEADER: token}, timeout=60)
                # They stay, so that one place that is free is not enough.
                stack.enter_context(late)
                assert late.get("/").status_code == 200
                assert "answer" in dict(asked(late, "Which river flows there?", id))


def test_who_is_answered_or_goes_on_sending_keeps_the_connection() -> None:
    reader = PlainReader()
    reader.go.clear()
    with serving(create_app(reader)) as address, httpx2.Client(base_url=address, timeout=60) as client:
        id = add(with_session(client)).json()["id"]
        given = {"question": "Which river flows there?", "documents": [id]}
        words = [b"Some ", b"of ", b"it."]
        half = post("/api/documents?name=a.txt", client.headers[HEADER], len(b"".join(words)), b"")
        with (
            client.stream("POST", "/api/readings", json=given) as response,
            silent(address, half, number=1) as (sender,),
            ExitStack() as others,
        ):
            for word in words:
                others.enter_context(silent(address, b"", number=CLIENTS // len(words)))
                _let_them_arrive(address)
                sender.sendall(word)
            assert sender.recv(100).startswith(b"HTTP/1.1 201")
            reader.go.set()
            assert "event: answer" in response.read().decode()


def _let_them_arrive(address: str) -> None:
    """Connections wait to be accepted, in no order that is promised; some clients meet them on their way."""
    for _ in range(10):
        time.sleep(0.1)
        with suppress(httpx2.TransportError):
            httpx2.get(f"{address}/", timeout=60)
