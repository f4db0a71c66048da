"""The server as a client meets it."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from longspan.web import app as app_module
from longspan.web.app import _body, create_app
from longspan.web.refusals import Refusal
from longspan.web.samples import Sample
from longspan.web.settings import ServeSettings
from tests.data.small_archives import small_docx, small_epub, zipped
from tests.data.small_pdf import small_pdf
from tests.web.asking import HEADER, RIVERS, add, asked, error_of, events, with_session
from tests.web.live import serving
from tests.web.plain_reader import PlainReader
from tests.web.test_extraction import LONG, children

SMALL = ServeSettings(max_upload_bytes=20_000, max_tokens=200, max_documents=3, max_waiting=2)
ENTITY = "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"


def patient(address: str, **options: Any) -> httpx2.Client:
    """A client that waits however slow the machine is: a fault is an answer that never comes."""
    return httpx2.Client(base_url=address, timeout=60, **options)


def comes_true(holds: Callable[[], bool]) -> None:
    """Waits until something is so."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never came true")


async def as_it_is(content: bytes, *_: object, **__: object) -> str:
    """A text's bytes as the text, at once."""
    return content.decode()


@pytest.fixture
def reader() -> PlainReader:
    return PlainReader()


@pytest.fixture
def client(reader: PlainReader) -> Generator[httpx2.Client]:
    with TestClient(create_app(reader, SMALL), base_url="http://127.0.0.1:8000") as client:
        yield with_session(cast(httpx2.Client, client))


@pytest.fixture
def live(reader: PlainReader) -> Generator[httpx2.Client]:
    with serving(create_app(reader, SMALL)) as address, patient(address) as client:
        yield with_session(client)
        reader.go.set()


def test_a_document_is_asked(client: httpx2.Client) -> None:
    added = add(client)
    assert added.status_code == 201
    document = added.json()
    assert document == {"id": document["id"], "name": "rivers.txt", "characters": 87, "tokens": 17}
    assert client.get(f"/api/documents/{document['id']}").json() == {**document, "text": RIVERS}
    told = asked(client, "Which river flows through a town?", document["id"])
    names = [name for name, _ in told]
    assert names[-2:] == ["answer", "done"] and set(names) <= {"queued", "progress", "answer", "done"}
    answer = dict(told)["answer"]
    best = answer["answers"][0]
    assert best["text"] == "Dresden" == RIVERS[best["start"] : best["end"]]
    assert best["document"] == document["id"]
    assert RIVERS[best["sentence_start"] : best["sentence_end"]].startswith("The river")
    assert sum(answer["attention"]) == pytest.approx(1) and len(answer["attention"]) == 240
    assert answer["window"] == 512 and answer["tokens"] == 17


def test_places_are_those_of_browsers(client: httpx2.Client) -> None:
    """Who count an emoji as two."""
    text = "😀😀 Hello. The river 😀 Elbe flows through Dresden."
    id = add(client, text).json()["id"]
    best = dict(asked(client, "river Elbe flows through", id))["answer"]["answers"][0]
    units = text.encode("utf-16-le")
    assert units[2 * best["start"] : 2 * best["end"]].decode("utf-16-le") == "Dresden"


def test_several_documents_are_read_together(client: httpx2.Client, reader: PlainReader) -> None:
    ids = [add(client, f"{text} {RIVERS}").json()["id"] for text in ("One.", "A river is called Oder.")]
    answer = dict(asked(client, "Which river is called so?", *ids, *ids))["answer"]
    assert answer["documents"] == ids, "each once"
    assert answer["answers"][0]["document"] == ids[1]
    assert client.delete(f"/api/documents/{ids[0]}").status_code == 204
    assert [one["id"] for one in client.get("/api/documents").json()] == ids[1:]
    gone = client.post("/api/readings", json={"question": "Which river?", "documents": ids})
    assert gone.status_code == 404 and "add it again" in error_of(gone)


def test_windows_are_handed_on(client: httpx2.Client, reader: PlainReader) -> None:
    id = add(client).json()["id"]
    assert client.get("/api/about").json()["windows"] == [512, 256, 128, 64, 32]
    assert dict(asked(client, "Which river?", id, window=64))["answer"]["window"] == 64
    assert reader.windows == [64]
    refused = client.post("/api/readings", json={"question": "x y", "documents": [id], "window": 65})
    assert refused.status_code == 422 and "window is 65" in error_of(refused)


def test_sessions_do_not_see_each_other(client: httpx2.Client) -> None:
    id = add(client).json()["id"]
    other = client.post("/api/sessions").json()["session"]
    assert client.get(f"/api/documents/{id}", headers={HEADER: other}).status_code == 404
    for wrong in ("", "guessed"):
        refused = client.get("/api/documents", headers={HEADER: wrong})
        assert refused.status_code == 401 and "session is over" in error_of(refused)


@pytest.mark.parametrize(
    ("name", "content", "status", "message"),
    [
        ("a.odt", b"x", 422, "ends in '.odt'; it must be one of .txt"),
        ("a.txt", b"", 422, "has no text"),
        ("a.txt", b"\xfc\xfd", 422, "UTF-8"),
        ("a.txt", b"x" * 30_000, 413, "has 29.3 KB; at most 19.5 KB are taken"),
        ("a.txt", b"a b " * 150, 422, "has 300 tokens; at most 200 are read"),
        ("a.txt", b"a" * 1_601, 422, "1,601 characters; at most 1,600"),
        ("a.pdf", small_pdf([["One line."]])[:300], 422, "cut short"),
        ("a.pdf", b"%PDF-1.4 nothing", 422, "cannot be read as PDF"),
        ("a.docx", small_docx(["One line."])[:200], 422, "cannot be read as a Word document"),
        ("a.epub", b"PK\x03\x04", 422, "cannot be read as an EPUB"),
        ("bomb.docx", small_docx(["a" * 3_000_000]), 422, "unpacks to more than 160,000 bytes"),
        ("bomb.epub", small_epub(["<p>" + "a" * 3_000_000]), 422, "unpacks to more than 160,000 bytes"),
        ("a.docx", zipped({"word/document.xml": ENTITY}), 422, "declares the entity"),
    ],
)
def test_bad_uploads_are_refused(
    client: httpx2.Client, name: str, content: bytes, status: int, message: str
) -> None:
    refused = add(client, content, name)
    assert refused.status_code == status
    assert message in error_of(refused)
    assert add(client).status_code == 201, "the server goes on"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.pdf", small_pdf([["One line.", "Another."]])),
        ("a.docx", small_docx(["One line.", "Another."])),
        ("../../etc/a\x00b.epub", small_epub(["<p>Another.", "<p>One line."])),
        ("page.html", b"<script>alert(1)</script><p>One line.<p>Another."),
    ],
)
def test_kinds_of_documents(client: httpx2.Client, name: str, content: bytes) -> None:
    document = add(client, content, name).json()
    assert "/" not in document["name"] and "\x00" not in document["name"]
    text = client.get(f"/api/documents/{document['id']}").json()["text"]
    assert text.replace("\n", " ") == "One line. Another."


def test_there_is_room_for_so_many_documents(client: httpx2.Client) -> None:
    ids = [add(client).json()["id"] for _ in range(3)]
    refused = add(client)
    assert refused.status_code == 409 and "remove one" in error_of(refused)
    client.delete(f"/api/documents/{ids[0]}")
    assert add(client).status_code == 201


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"question": " ", "documents": []}, 422, "question is empty"),
        ({"question": "a" * 501, "documents": []}, 422, "501 characters; at most 500"),
        ({"question": "Who?", "documents": []}, 422, "no document"),
        ({"question": "Who?", "documents": ["nothing"]}, 404, "no longer here"),
        ({"question": "Who?"}, 422, "documents"),
        ({"question": "Who?", "documents": [], "top": 10**9}, 422, "top"),
        ("text", 422, "cannot be read"),
        ({"question": "a" * 70_000, "documents": []}, 413, "more than 64.0 KB"),
    ],
)
def test_bad_questions_are_refused(client: httpx2.Client, given: Any, status: int, message: str) -> None:
    refused = client.post("/api/readings", json=given)
    assert refused.status_code == status
    assert message in error_of(refused)


def test_documents_together_may_be_too_long(client: httpx2.Client) -> None:
    ids = [add(client, "a b " * 60).json()["id"] for _ in range(2)]
    refused = client.post("/api/readings", json={"question": "Who?", "documents": ids})
    assert refused.status_code == 422 and "240 tokens together; at most 200" in error_of(refused)


def test_errors_of_a_reading_are_told(client: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    id = add(client).json()["id"]
    assert asked(client, "Is it wrong?", id)[-2:] == [
        ("error", {"message": "question is wrong; it must be right"}),
        ("done", None),
    ]
    name, said = asked(client, "Does it fail?", id)[-2]
    assert name == "error" and "terminal says more" in said["message"] and "as it was" not in said["message"]
    assert "as it was asked to" in caplog.text
    assert "not enough memory" in dict(asked(client, "Is it huge?", id))["error"]["message"]
    assert "answer" in dict(asked(client, "Which river?", id)), "the thread goes on"


def test_samples_are_opened(tmp_path: Path, reader: PlainReader) -> None:
    book = tmp_path / "book.txt"
    book.write_text(RIVERS)
    app = create_app(reader, SMALL, samples=[Sample(title="A book", path=book, questions=("Which river?",))])
    with TestClient(app, base_url="http://127.0.0.1") as plain:
        client = with_session(cast(httpx2.Client, plain))
        offered = client.get("/api/about").json()["samples"]
        assert offered == [{"title": "A book", "questions": ["Which river?"]}]
        opened = client.post("/api/samples", params={"name": "A book"}).json()
        assert opened["name"] == "A book" and opened["characters"] == len(RIVERS)
        for name in ("/etc/passwd", str(book)):
            assert client.post("/api/samples", params={"name": name}).status_code == 404


@pytest.mark.parametrize("settings", [{"upload_seconds": 1}, {"receive_seconds": 1}])
def test_files_that_never_arrive_are_given_up(
    reader: PlainReader, settings: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends nothing, and one that sends a little now and then, for ever."""
    is_silent = "upload_seconds" in settings
    # The other client's file is not read in the second that this one may be silent.
    monkeypatch.setattr(app_module, "extract", as_it_is)
    over = threading.Event()

    def dribble() -> Generator[bytes]:
        while True:
            yield b"a"
            if over.wait(30 if is_silent else 0.1):
                return

    app = create_app(reader, ServeSettings(max_uploads=1, **settings))
    with serving(app) as address, patient(address) as client:
        told: list[httpx2.Response] = []

        def send() -> None:
            told.append(client.post("/api/documents", params={"name": "a.txt"}, content=dribble()))
            over.set()

        with_session(client)
        sender = threading.Thread(target=send)
        sender.start()
        comes_true(lambda: app.state.uploads.taken == 1)
        with httpx2.Client(base_url=address, headers=client.headers, timeout=60) as other:
            assert add(other).status_code == 201, "there is one place for uploads, and it is free again"
        over.set()
        sender.join(60)
        assert told[0].status_code == 408 and "did not arrive in time" in error_of(told[0])


def test_time_is_up_even_as_something_arrives() -> None:
    """Time ends at any moment, so also between the arrival of a piece and its being looked at."""
    settings = ServeSettings(receive_seconds=1)

    async def refusals() -> list[Refusal]:
        ends = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b"a", "more_body": not ends.is_set()}

        async def send_for_ever() -> Refusal:
            with pytest.raises(Refusal) as refused:
                await _body(Request({"type": "http"}, receive), 10**9, settings)
            return refused.value

        sending = [asyncio.create_task(send_for_ever()) for _ in range(50)]
        done, late = await asyncio.wait(sending, timeout=20)
        ends.set()
        await asyncio.gather(*late, return_exceptions=True)
        assert not late, f"{len(late)} clients send on"
        return [one.result() for one in done]

    assert {one.status for one in asyncio.run(refusals())} == {408}


def test_documents_go_though_nobody_asks_any_more(
    reader: PlainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(reader, ServeSettings(session_seconds=1))
    sessions, now = app.state.sessions, [0.0]
    monkeypatch.setattr(sessions, "_clock", lambda: now[0])
    with serving(app) as address, patient(address) as client:
        add(with_session(client))
        assert sessions.held == len(RIVERS)
        now[0] = 1.5
        comes_true(lambda: sessions.held == 0)


def test_patterns_and_costs(client: httpx2.Client) -> None:
    found = client.get("/api/pattern", params={"window": 2, "globals": 1, "length": 4}).json()
    assert found["cells"] == [[2, 2, 2, 2], [2, 1, 1, 0], [2, 1, 1, 1], [2, 0, 1, 1]]
    assert (found["pairs"], found["full"]) == (14, 16)
    assert client.get("/api/cost", params={"tokens": 4, "window": 2, "globals": 1}).json()["pairs"] == 14
    for path, params, message in (
        ("pattern", {"window": 2, "length": 10_000}, "length is 10000; a picture shows 1 to 96"),
        ("pattern", {"window": -2}, "window is -2"),
        ("pattern", {"window": "wide"}, "window: "),
        ("cost", {"tokens": 0, "window": 2}, "tokens is 0"),
        ("cost", {"tokens": 4, "window": 2, "globals": 10**12}, "globals is"),
    ):
        refused = client.get(f"/api/{path}", params=params)
        assert refused.status_code == 422 and message in error_of(refused)


def test_who_hangs_up_stops_the_work(live: httpx2.Client, reader: PlainReader) -> None:
    id = add(live).json()["id"]
    reader.go.clear()
    given = {"question": "Which river?", "documents": [id]}
    with live.stream("POST", "/api/readings", json=given) as response:
        told = events(response.iter_lines())
        while next(told)[0] != "progress":
            pass
        assert reader.begun.wait(60)
    assert reader.ended.wait(60), "the reading was ended, though nothing let it go"
    assert reader.finished == 0
    reader.go.set()
    assert "answer" in dict(asked(live, "Which river?", id))


def test_who_hangs_up_stops_the_reading_of_a_file(reader: PlainReader) -> None:
    async def sent_and_cut(address: str) -> None:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as one:
            one.headers[HEADER] = (await one.post("/api/sessions")).json()["session"]
            sending = asyncio.ensure_future(
                one.post("/api/documents", params={"name": "slow.pdf"}, content=LONG)
            )
            while not children():
                assert not sending.done()
                await asyncio.sleep(0.01)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    with serving(create_app(reader, ServeSettings(upload_seconds=600))) as address:
        asyncio.run(sent_and_cut(address))
        for _ in range(600):
            if not children():
                break
            time.sleep(0.1)
        assert not children(), "long before its time was over"


def test_the_queue_is_bounded_and_shown(live: httpx2.Client, reader: PlainReader) -> None:
    id = add(live).json()["id"]
    given = {"question": "Which river?", "documents": [id]}
    reader.go.clear()
    with live.stream("POST", "/api/readings", json=given) as first:
        running = events(first.iter_lines())
        while next(running)[0] != "progress":
            pass
        with (
            live.stream("POST", "/api/readings", json=given) as second,
            live.stream("POST", "/api/readings", json=given) as third,
        ):
            waiting, last = events(second.iter_lines()), events(third.iter_lines())
            assert next(waiting) == ("queued", {"position": 1})
            assert next(last) == ("queued", {"position": 2})
            full = live.post("/api/readings", json=given)
            assert full.status_code == 503 and "2 questions wait already" in error_of(full)
            second.close()
            assert next(last) == ("queued", {"position": 1}), "who was before it went away"
            reader.go.set()
            assert [name for name, _ in last][-2:] == ["answer", "done"]
        assert [name for name, _ in running][-2:] == ["answer", "done"]
    assert reader.most_at_once == 1 and reader.finished == 2


def test_a_server_stops_while_questions_wait(reader: PlainReader) -> None:
    reader.go.clear()
    told: list[str] = []
    open = threading.Semaphore(0)

    def wait(address: str, token: str, id: str) -> None:
        given = {"question": "Which river?", "documents": [id]}
        with (
            patient(address, headers={HEADER: token}) as client,
            client.stream("POST", "/api/readings", json=given) as response,
        ):
            open.release()
            try:
                told.extend(name for name, _ in events(response.iter_lines()))
            except httpx2.TransportError:
                told.append("cut off")

    with serving(create_app(reader, SMALL)) as address, patient(address) as client:
        id = add(with_session(client)).json()["id"]
        threads = [
            threading.Thread(target=wait, args=(address, client.headers[HEADER], id)) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        assert reader.begun.wait(60) and all(open.acquire(timeout=60) for _ in threads)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert reader.ended.wait(60) and reader.finished == 0
