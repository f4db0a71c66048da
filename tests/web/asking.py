"""A client of the page's server, for tests: a session, documents, and questions with their events."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2

HEADER = "X-Longspan-Session"
RIVERS = "The river Elbe flows through Dresden. Ada wrote a long book. Nobody read it to the end."


def with_session(client: httpx2.Client) -> httpx2.Client:
    """The client, which from now on sends a session's token."""
    client.headers[HEADER] = client.post("/api/sessions").json()["session"]
    return client


def add(client: httpx2.Client, content: bytes | str = RIVERS, name: str = "rivers.txt") -> httpx2.Response:
    """Uploads a document."""
    data = content.encode() if isinstance(content, str) else content
    return client.post("/api/documents", params={"name": name}, content=data)


def error_of(response: httpx2.Response) -> str:
    """What a refusal says."""
    assert response.headers["content-type"] == "application/json"
    return response.json()["error"]


def events(lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Server-sent events of the lines of an answer."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def asked(client: httpx2.Client, question: str, *ids: str, **more: Any) -> list[tuple[str, Any]]:
    """Asks, and gives all events."""
    given = {"question": question, "documents": list(ids), **more}
    with client.stream("POST", "/api/readings", json=given) as response:
        assert response.status_code == 200, response.read()
        return list(events(response.iter_lines()))
