"""Documents that clients brought, in memory: by session, for a while, and never more than fit.

A session is a random token that only its page knows. Nothing is written to disk.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from longspan.web.refusals import Refusal
from longspan.web.settings import ServeSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A document."""

    id: str
    name: str
    text: str
    tokens: int

    def summary(self) -> dict[str, str | int]:
        """All but the text."""
        return {"id": self.id, "name": self.name, "characters": len(self.text), "tokens": self.tokens}


@dataclass(slots=True)
class Session:
    """What one page brought."""

    used: float
    """When it was last used, in seconds."""
    texts: dict[str, Text] = field(default_factory=dict[str, Text])

    def text(self, id: str) -> Text:
        """One of its documents.

        Raises:
            Refusal: it has no such document.
        """
        if id not in self.texts:
            raise Refusal(404, "this document is no longer here; add it again")
        return self.texts[id]


class Sessions:
    """All that a server holds. Used from its event loop only.

    Args:
        settings: how much it may hold, and how long.
        clock: seconds, from any beginning.
    """

    def __init__(self, settings: ServeSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def open(self) -> str:
        """A new session's token.

        Raises:
            Refusal: there are too many.
        """
        self.forget()
        if len(self._sessions) >= self._settings.max_sessions:
            raise Refusal(503, "too many pages use this server; try again later")
        token = secrets.token_urlsafe(24)
        self._sessions[token] = Session(self._clock())
        return token

    def get(self, token: str) -> Session:
        """The session of a token.

        Raises:
            Refusal: there is none, or it was forgotten.
        """
        self.forget()
        session = self._sessions.get(token)
        if session is None:
            raise Refusal(401, "this session is over; reload the page")
        session.used = self._clock()
        return session

    def check_room(self, session: Session, characters: int = 0) -> None:
        """Whether a session may have another document, of so many characters.

        Raises:
            Refusal: it has as many as it may, or all sessions have.
        """
        settings = self._settings
        if len(session.texts) >= settings.max_documents:
            raise Refusal(
                409, f"{settings.max_documents} documents are open, the most that may be; remove one"
            )
        if self.held + characters > settings.max_total_characters:
            raise Refusal(503, "the server holds as much text as it may; remove a document, or try later")

    def add(self, session: Session, name: str, text: str, tokens: int) -> Text:
        """Takes a document.

        Raises:
            Refusal: there is no room.
        """
        self.check_room(session, len(text))
        added = Text(id=secrets.token_urlsafe(9), name=name, text=text, tokens=tokens)
        session.texts[added.id] = added
        return added

    @property
    def held(self) -> int:
        """Characters of all documents."""
        return sum(len(text.text) for one in self._sessions.values() for text in one.texts.values())

    def forget(self) -> None:
        """Forgets sessions that nobody used for long; so does every other call."""
        oldest = self._clock() - self._settings.session_seconds
        self._sessions = {token: one for token, one in self._sessions.items() if one.used >= oldest}
