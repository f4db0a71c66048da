"""Fifty clients at once, good ones and bad ones, of a real server."""

import asyncio

import httpx2

from longspan.web.app import create_app
from longspan.web.settings import ServeSettings
from tests.data.small_archives import small_docx
from tests.data.small_pdf import small_pdf
from tests.web.asking import HEADER, RIVERS
from tests.web.live import serving
from tests.web.plain_reader import PlainReader

CLIENTS = 50
SETTINGS = ServeSettings(max_waiting=20, max_upload_bytes=100_000)
BAD = [
    ("cut.pdf", small_pdf([["One line."]])[:300], 422),
    ("bomb.docx", small_docx(["a" * 3_000_000]), 422),
    ("large.txt", b"a" * 100_001, 413),
    ("letters.txt", b"\xfc\xfd", 422),
]


async def uploads_badly(asks: httpx2.AsyncClient, number: int) -> int:
    name, content, status = BAD[number % len(BAD)]
    refused = await asks.post("/api/documents", params={"name": name}, content=content)
    assert refused.status_code == status and refused.json()["error"]
    return status


async def asks_well(asks: httpx2.AsyncClient, number: int, id: str) -> int:
    given = {"question": "Which river flows there?", "documents": [id]}
    async with asks.stream("POST", "/api/readings", json=given) as response:
        if response.status_code != 200:
            assert b"questions wait already" in await response.aread()
        elif number % 3:
            lines = [line async for line in response.aiter_lines()]
            assert "event: answer" in lines and "event: done" in lines
        # The others hang up, wherever their question is.
        return response.status_code


async def all_clients(address: str) -> list[int]:
    async with httpx2.AsyncClient(base_url=address, timeout=300) as asks:
        asks.headers[HEADER] = (await asks.post("/api/sessions")).json()["session"]
        added = await asks.post("/api/documents", params={"name": "rivers.txt"}, content=RIVERS.encode())

        async def client(number: int) -> int:
            async with httpx2.AsyncClient(base_url=address, timeout=300, headers=asks.headers) as one:
                if number % 5 == 0:
                    return await uploads_badly(one, number)
                return await asks_well(one, number, added.json()["id"])

        return await asyncio.gather(*map(client, range(CLIENTS)))


def test_fifty_clients_are_served() -> None:
    reader = PlainReader()
    with serving(create_app(reader, SETTINGS)) as address:
        statuses = asyncio.run(all_clients(address))
        asked = [status for number, status in enumerate(statuses) if number % 5]
        assert set(asked) <= {200, 503} and asked.count(200) > 0
        assert httpx2.get(f"{address}/api/about").status_code == 200
    assert reader.most_at_once == 1
