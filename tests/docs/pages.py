"""The pages that tell a reader what to type, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "recipes/README.md", "samples/README.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """What stands between two fences."""

    page: Path
    line: int
    """Of the first fence, from 1."""
    language: str
    code: str
    heading: str
    """The one that it stands below."""

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Of a block of ``sh``: a command a line, without remarks; lines that end with a backslash go on."""
        lines = self.code.replace("\\\n", " ").splitlines()
        bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
        return [line for line in bare if line]


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in their order.

    Raises:
        ValueError: a fence has no language, or no end.
    """
    found: list[Block] = []
    heading, begun = "", None
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r" *```(.*)", line)
        if begun is None and fence is None and line.startswith("#"):
            heading = line.lstrip("# ")
        if fence is None:
            continue
        if begun is None:
            if not re.fullmatch(r"\w+", fence[1]):
                raise ValueError(f"{name_of(page)}:{number}: a block needs a language; it has {fence[1]!r}")
            begun = (number, fence[1])
        else:
            code = dedent("\n".join(lines[begun[0] : number - 1])) + "\n"
            found.append(Block(page=page, line=begun[0], language=begun[1], code=code, heading=heading))
            begun = None
    if begun is not None:
        raise ValueError(f"{name_of(page)}:{begun[0]}: the block has no end")
    return found
