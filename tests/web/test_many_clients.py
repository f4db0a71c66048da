"""Fifty clients at once, good ones and bad ones, of a real server."""

import asyncio
from collections import Counter

import httpx2

from longspan.web.app import create_app
from longspan.web.settings import ServeSettings
from tests.data.small_archives import small_docx, small_epub
from tests.data.small_pdf import small_pdf
from tests.web.asking import HEADER, RIVERS, add, asked, with_session
from tests.web.live import serving
from tests.web.plain_reader import PlainReader
from tests.web.test_extraction import children

CLIENTS = 50
SETTINGS = ServeSettings(max_waiting=20, max_upload_bytes=100_000)
BAD = [
    ("cut.pdf", small_pdf([["One line."]])[:300], 422),
    ("bomb.docx", small_docx(["a" * 3_000_000]), 422),
    ("bomb.epub", small_epub(["<p>" + "a" * 3_000_000]), 422),
    ("large.txt", b"a" * 100_001, 413),
    ("letters.txt", b"\xfc\xfd", 422),
]


async def uploads_badly(asks: httpx2.AsyncClient, number: int) -> str:
    name, content, status = BAD[number // 5 % len(BAD)]
    refused = await asks.post("/api/documents", params={"name": name}, content=content)
    assert refused.status_code == status and refused.json()["error"]
    return f"refused {name}"


async def asks_well(asks: httpx2.AsyncClient, number: int) -> str:
    added = await asks.post("/api/documents", params={"name": "a.txt"}, content=f"{number} {RIVERS}".encode())
    given = {"question": "Which river flows there?", "documents": [added.json()["id"]]}
    async with asks.stream("POST", "/api/readings", json=given) as response:
        if response.status_code != 200:
            assert response.status_code == 503 and b"questions wait already" in await response.aread()
            return "turned away"
        if number % 5 == 1:
            return "hung up"
        lines = [line async for line in response.aiter_lines()]
        assert "event: answer" in lines and "event: done" in lines
        return "answered"


async def client(address: str, number: int) -> str:
    async with httpx2.AsyncClient(base_url=address, timeout=300) as one:
        one.headers[HEADER] = (await one.post("/api/sessions")).json()["session"]
        return await (asks_well if number % 5 else uploads_badly)(one, number)


async def all_clients(address: str) -> Counter[str]:
    return Counter(await asyncio.gather(*(client(address, number) for number in range(CLIENTS))))


def test_fifty_clients_are_served() -> None:
    reader = PlainReader()
    with serving(create_app(reader, SETTINGS)) as address:
        came = asyncio.run(all_clients(address))
        assert came.total() == CLIENTS
        assert [came[f"refused {name}"] for name, *_ in BAD] == [2] * len(BAD)
        assert came["answered"] > 0 and came["hung up"] > 0
        assert came["answered"] + came["hung up"] + came["turned away"] == CLIENTS - 2 * len(BAD)
        with httpx2.Client(base_url=address, timeout=60) as last:
            id = add(with_session(last)).json()["id"]
            assert "answer" in dict(asked(last, "Which river flows there?", id)), "the server goes on"
        assert not children(), "no process that reads a file is left"
    assert reader.most_at_once == 1
    assert reader.finished > came["answered"]


def test_more_questions_than_may_wait_are_turned_away() -> None:
    """Fifty at once while one is read: as many as may wait are answered in turn, the others hear why not."""
    reader = PlainReader()
    with serving(create_app(reader, SETTINGS)) as address:
        came = asyncio.run(_crowd(address, reader))
    assert came == {200: SETTINGS.max_waiting + 1, 503: CLIENTS - SETTINGS.max_waiting - 1}
    assert reader.most_at_once == 1 and reader.finished == SETTINGS.max_waiting + 1


async def _crowd(address: str, reader: PlainReader) -> Counter[int]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=address, timeout=300, limits=limits) as one:
        one.headers[HEADER] = (await one.post("/api/sessions")).json()["session"]
        added = await one.post("/api/documents", params={"name": "a.txt"}, content=RIVERS.encode())
        given = {"question": "Which river flows there?", "documents": [added.json()["id"]]}
        reader.go.clear()
        told = Counter[int]()

        async def ask() -> None:
            async with one.stream("POST", "/api/readings", json=given) as response:
                told[response.status_code] += 1
                if told.total() == CLIENTS:
                    # Everybody has heard whether it may wait; only now is the first one read to its end.
                    reader.go.set()
                said = await response.aread()
                assert (b"event: answer" in said) == (response.status_code == 200)

        first = asyncio.ensure_future(ask())
        await asyncio.to_thread(reader.begun.wait, 60)
        await asyncio.gather(first, *(ask() for _ in range(CLIENTS - 1)))
        return told
