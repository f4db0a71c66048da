"""How large a document of a user may be: what is more is refused, with what would be right."""

from dataclasses import asdict, dataclass

from longspan.checks import at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The most that is read of one document."""

    file_bytes: int = 256 * 2**20
    """Of the file."""
    unpacked_bytes: int = 512 * 2**20
    """Of the parts of a Word document or an EPUB together, unpacked: a small file may hold a huge one."""
    characters: int = 100_000_000
    """Of the text."""

    def __post_init__(self) -> None:
        at_least(1, **asdict(self))

    def check_file(self, size: int, where: str) -> None:
        """Refuses a file of more bytes.

        Raises:
            ValueError: it has more.
        """
        if size > self.file_bytes:
            raise ValueError(f"{where} has {size:,} bytes; at most {self.file_bytes:,} are read (file_bytes)")

    def check_text(self, text: str, where: str) -> None:
        """Refuses a text of more characters.

        Raises:
            ValueError: it has more.
        """
        if len(text) > self.characters:
            raise ValueError(
                f"{where} has {len(text):,} characters; at most {self.characters:,} are read (characters)"
            )


NO_MORE = Limits()
"""The usual limits."""
