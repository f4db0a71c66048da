"""The page's server: documents in, answers out as server-sent events.

`create_app` makes an application of a reader. Uploads are read in processes (`extraction`), questions are
answered by one thread (`jobs`), so that the event loop never waits. A client is known by the token in the
header X-Longspan-Session, which pages of other origins cannot send.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from longspan import __version__
from longspan.data.documents import ENDINGS
from longspan.web import pattern
from longspan.web.extraction import clean_name, extract
from longspan.web.guard import Guard
from longspan.web.jobs import Job, Jobs, QueueFull
from longspan.web.reading import Reads, read, windows_of
from longspan.web.refusals import Refusal, answer_refusals
from longspan.web.samples import Sample
from longspan.web.sessions import Session, Sessions, Text
from longspan.web.settings import ServeSettings
from longspan.web.turns import Turns

STATIC = Path(__file__).parent / "static"
_QUESTION_BYTES = 64 * 2**10
"""Of a request that is no file."""
_FORGETTING_SECONDS = 60.0
"""Between looks for sessions that nobody used for long: documents go even where nobody asks any more."""


class _Asked(BaseModel):
    """A question, as the page sends it."""

    model_config = ConfigDict(extra="forbid")

    question: str
    documents: list[str]
    window: int | None = None


class _EventStream(StreamingResponse):
    """A job's events. Whoever hangs up, at whatever moment, cancels the job."""

    def __init__(self, job: Job) -> None:
        super().__init__(self._lines(job), media_type="text/event-stream")
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.cancel()

    @staticmethod
    async def _lines(job: Job) -> AsyncIterator[str]:
        async for event in job.events():
            yield f"event: {event.name}\ndata: {json.dumps(event.data)}\n\n" if event.name else ":\n\n"


def create_app(
    reader: Reads,
    settings: ServeSettings | None = None,
    *,
    host: str = "127.0.0.1",
    model: str = "",
    samples: Sequence[Sample] = (),
) -> FastAPI:
    """The application.

    Args:
        reader: answers the questions.
        settings: its limits.
        host: address or name that the server will be bound to.
        model: what the page calls the model.
        samples: documents that a page may open.
    """
    settings = settings or ServeSettings()
    sessions = Sessions(settings)
    jobs = Jobs(settings.max_waiting)
    uploads = Turns(settings.max_uploads, settings.max_waiting_uploads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        forgetting = asyncio.create_task(_forget_now_and_then(sessions, settings.session_seconds))
        yield
        forgetting.cancel()
        jobs.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.sessions, app.state.uploads = sessions, uploads
    app.add_middleware(Guard, host=host)
    answer_refusals(app)

    def session_of(x_longspan_session: Annotated[str, Header()] = "") -> Session:
        return sessions.get(x_longspan_session)

    # Of this session, from the header that only its page can send.
    mine = Depends(session_of)

    async def kept(session: Session, name: str, content: bytes, title: str = "") -> dict[str, Any]:
        """A file as a document of a session, by its name or another title."""
        try:
            text = await extract(
                content,
                name,
                settings.limits,
                seconds=settings.upload_seconds,
                memory=settings.upload_memory,
            )
            tokens = await asyncio.to_thread(reader.count_tokens, text)
            if tokens > settings.max_tokens:
                raise ValueError(f"{name} has {tokens:,} tokens; at most {settings.max_tokens:,} are read")
        except ValueError as error:
            raise Refusal(422, str(error)) from error
        return sessions.add(session, title or name, text, tokens).summary()

    @app.get("/")
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        return {
            "version": __version__,
            "model": model,
            "window": reader.window,
            "windows": windows_of(reader),
            "endings": ENDINGS,
            "samples": [{"title": one.title, "questions": one.questions} for one in samples],
            "max_upload_bytes": settings.max_upload_bytes,
            "max_tokens": settings.max_tokens,
            "max_question_characters": settings.max_question_characters,
        }

    @app.post("/api/sessions", status_code=201)
    async def open_session() -> dict[str, str]:
        return {"session": sessions.open()}

    @app.get("/api/documents")
    async def list_documents(session: Session = mine) -> list[dict[str, str | int]]:
        return [text.summary() for text in session.texts.values()]

    @app.post("/api/documents", status_code=201)
    async def add_document(
        request: Request, name: Annotated[str, Query()], session: Session = mine
    ) -> dict[str, Any]:
        _check_length(request, settings.max_upload_bytes)
        sessions.check_room(session)
        async with uploads.next():
            content = await _body(request, settings.max_upload_bytes, settings)
            return await _unless_gone(request, kept(session, clean_name(name), content))

    @app.post("/api/samples", status_code=201)
    async def open_sample(name: Annotated[str, Query()], session: Session = mine) -> dict[str, Any]:
        sample = next((one for one in samples if one.title == name), None)
        if sample is None:
            raise Refusal(404, f"there is no sample {name!r}")
        async with uploads.next():
            content = await asyncio.to_thread(sample.path.read_bytes)
            return await kept(session, sample.path.name, content, sample.title)

    @app.get("/api/documents/{id}")
    async def get_document(id: str, session: Session = mine) -> dict[str, Any]:
        text = session.text(id)
        return {**text.summary(), "text": text.text}

    @app.delete("/api/documents/{id}", status_code=204)
    async def remove_document(id: str, session: Session = mine) -> None:
        del session.texts[session.text(id).id]

    @app.post("/api/readings")
    async def ask(request: Request, session: Session = mine) -> _EventStream:
        asked = _asked(await _body(request, _QUESTION_BYTES, settings))
        question = asked.question.strip()
        most = settings.max_question_characters
        if not question:
            raise Refusal(422, "the question is empty; it must ask something")
        if len(question) > most:
            raise Refusal(422, f"the question has {len(question):,} characters; at most {most:,} are read")
        texts = [session.text(id) for id in dict.fromkeys(asked.documents)]
        _check_texts(texts, settings.max_tokens)
        if asked.window is not None and asked.window not in windows_of(reader):
            raise Refusal(422, f"window is {asked.window}; it must be one of {windows_of(reader)}")
        try:
            job = jobs.submit(lambda progress: read(reader, texts, question, asked.window, progress))
        except QueueFull:
            raise Refusal(
                503, f"{settings.max_waiting} questions wait already, the most that may; try again later"
            ) from None
        return _EventStream(job)

    @app.get("/api/pattern")
    async def show_pattern(
        window: int, dilation: int = 1, globals: int = 0, length: int = 48
    ) -> dict[str, Any]:
        try:
            shape = pattern.Shape(window=window, dilation=dilation, globals=globals)
            return await asyncio.to_thread(pattern.picture, shape, length)
        except ValueError as error:
            raise Refusal(422, str(error)) from error

    @app.get("/api/cost")
    async def show_cost(tokens: int, window: int, globals: int = 0) -> dict[str, Any]:
        try:
            return pattern.cost(pattern.Shape(window=window, globals=globals), tokens)
        except ValueError as error:
            raise Refusal(422, str(error)) from error

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app


def _check_texts(texts: list[Text], most: int) -> None:
    if not texts:
        raise Refusal(422, "there is no document to ask; add one first")
    tokens = sum(text.tokens for text in texts)
    if tokens > most:
        raise Refusal(422, f"the documents have {tokens:,} tokens together; at most {most:,} are read")


def _asked(body: bytes) -> _Asked:
    try:
        return _Asked.model_validate_json(body)
    except ValueError as error:
        raise Refusal(422, f"the question cannot be read: {error}") from error


def _check_length(request: Request, most: int) -> None:
    """Refuses what says that it is too large before it is sent."""
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) > most:
        raise Refusal(413, f"the file has {_size(int(said))}; at most {_size(most)} are taken")


async def _body(request: Request, most: int, settings: ServeSettings) -> bytes:
    """All that a client sends, if it is not too much and comes in time."""
    content = bytearray()
    stream = request.stream()
    try:
        async with asyncio.timeout(settings.receive_seconds):
            while True:
                async with asyncio.timeout(settings.upload_seconds):
                    piece = await anext(stream, b"")
                if not piece:
                    break
                content += piece
                if len(content) > most:
                    raise Refusal(413, f"more than {_size(most)} were sent; no more are taken")
    except TimeoutError:
        raise Refusal(408, "the file did not arrive in time; send it again") from None
    except ClientDisconnect:
        raise Refusal(400, "the client went away") from None
    return bytes(content)


async def _forget_now_and_then(sessions: Sessions, seconds: float) -> None:
    while True:
        await asyncio.sleep(min(seconds, _FORGETTING_SECONDS))
        sessions.forget()


async def _unless_gone(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Does work for a client whose request has been read, and stops when the client hangs up."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Refusal(400, "the client went away")
        return doing.result()
    finally:
        doing.cancel()
        gone.cancel()
        # What was cancelled ends its processes before the request is over.
        await asyncio.gather(doing, gone, return_exceptions=True)


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB" if count >= 2**20 else f"{count / 2**10:,.1f} KB"
