"""What a server may be told, and what follows from it: limits of what its users send and ask."""

from dataclasses import asdict, dataclass

from longspan.checks import at_least
from longspan.data.sizes import Limits

_MOST_CHARACTERS_A_TOKEN = 8
"""Texts have about 4; what has more of them than this is refused before its tokens are counted."""
_MOST_UNPACKED = 8
"""Times the size of an upload: what a Word document or an EPUB may unpack to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeSettings:
    """Limits of a server."""

    max_upload_bytes: int = 25 * 2**20
    """Of one file."""
    max_tokens: int = 500_000
    """Of all documents that one question is asked of."""
    max_question_characters: int = 500
    max_waiting: int = 16
    """Questions that wait while another one is answered; more are refused."""
    max_uploads: int = 4
    """Files that are received and read at the same time; others wait."""
    max_waiting_uploads: int = 64
    """Files that wait for that; more are refused."""
    upload_seconds: int = 30
    """That a client may leave a half-sent file without a byte, and that reading the file may take."""
    receive_seconds: int = 300
    """That all of a file may take to arrive."""
    upload_memory: int = 2 * 2**30
    """Bytes of memory that reading a file may take."""
    max_sessions: int = 500
    max_documents: int = 20
    """Of one session."""
    max_total_characters: int = 50_000_000
    """Of all documents of all sessions."""
    session_seconds: int = 3600
    """After which a session that nobody used is forgotten, with its documents."""

    def __post_init__(self) -> None:
        at_least(1, **asdict(self))

    @property
    def limits(self) -> Limits:
        """Of a file that is uploaded, and of its text."""
        return Limits(
            file_bytes=self.max_upload_bytes,
            unpacked_bytes=_MOST_UNPACKED * self.max_upload_bytes,
            characters=_MOST_CHARACTERS_A_TOKEN * self.max_tokens,
        )
