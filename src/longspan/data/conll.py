"""The columns of CoNLL-2012, read and written: a word a line, its entities' brackets in the last column.

An entity's number opens a mention as "(3", closes it as "3)", and is a mention of one word as "(3)".
Several stand side by side, with or without bars between them. Of an entity's open mentions the one that
was opened last closes first, so that two mentions of one entity that cross cannot be written.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from longspan.data.examples import CoreferenceDocument, Mention
from longspan.data.files import OpenFile
from longspan.data.records import wrong

_BEGIN = re.compile(r"#\s*begin document\s+(?:\((?P<name>.*)\);\s*part\s+(?P<part>\d+)|(?P<bare>\S*))\s*")
_END = re.compile(r"#\s*end document\s*")
_BRACKET = re.compile(r"\|?(?:\((?P<one>\d+)\)|\((?P<open>\d+)|(?P<close>\d+)\))")
UNMATCHED = "brackets without their partners"
EMPTY = "empty words"
_NOTHING = ("", "-", "_")


def read_documents(file: OpenFile, flaws: Counter[str] | None = None) -> Iterator[CoreferenceDocument]:
    """The documents of one file, of CoNLL-2012's twelve columns or more or of OntoGUM's three.

    Args:
        file: the file.
        flaws: counts brackets without their partners and empty words, which are then left out, not refused.

    Raises:
        ValueError: a line is no such row, brackets do not match, or a document does not end.
    """
    document: _Document | None = None
    number = 0
    for number, line in file.lines():
        where = f"{file.name}, line {number}"
        if document is None:
            if begin := _BEGIN.fullmatch(line):
                # OntoGUM names a document by its file alone.
                named = f"{begin['name']}_{int(begin['part'])}" if begin["part"] else begin["bare"]
                document = _Document(named or file.stem, flaws)
            elif line.strip():
                raise wrong(where, "the line", line, "'#begin document (NAME); part NUMBER'")
        elif _END.fullmatch(line):
            yield document.finished(where)
            document = None
        elif not line.strip():
            document.end_sentence()
        else:
            document.add(line, where)
    if document is not None:
        raise ValueError(f"{file.name}, line {number}: the file ends; it must have '#end document' before")


def conll_lines(document: CoreferenceDocument) -> Iterator[str]:
    """A document in twelve columns, those that nothing is known about being "-"; for official scorers.

    Raises:
        ValueError: mentions of one entity cross.
    """
    cells = _cells(document)
    yield f"#begin document ({document.id}); part 000"
    place = 0
    for at, sentence in enumerate(document.sentences):
        for number, word in enumerate(sentence):
            speaker = document.speakers[at][number] if document.speakers else ""
            row = [document.id, "0", str(number), word, *"-----", speaker or "-", "-", cells.get(place, "-")]
            yield "\t".join(row)
            place += 1
        yield ""
    yield "#end document"


def in_order(clusters: Iterable[Iterable[Mention]], where: str) -> tuple[tuple[Mention, ...], ...]:
    """Mentions by their places, and clusters by their first one.

    Raises:
        ValueError: a cluster is empty, or has a mention twice.
    """
    ordered: list[tuple[Mention, ...]] = []
    for cluster in clusters:
        mentions = tuple(sorted(cluster))
        if not mentions or len(set(mentions)) < len(mentions):
            raise wrong(where, "a cluster", mentions, "different mentions, at least one")
        ordered.append(mentions)
    return tuple(sorted(ordered))


@dataclass(slots=True)
class _Document:
    """A document of which some lines were read."""

    id: str
    flaws: Counter[str] | None
    sentences: list[list[str]] = field(default_factory=lambda: [[]])
    speakers: list[list[str]] = field(default_factory=lambda: [[]])
    num_words: int = 0
    open: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    clusters: dict[str, list[Mention]] = field(default_factory=lambda: defaultdict(list))

    def add(self, line: str, where: str) -> None:
        """One word."""
        # Spaces separate in OntoNotes; with tabs an empty last column still counts.
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) == 3:
            word, speaker = columns[1], ""
        elif len(columns) >= 12:
            word, speaker = columns[3], columns[9]
        else:
            right = "3, as in OntoGUM, or 12 and more, as in CoNLL-2012"
            raise wrong(where, "the number of columns", len(columns), right)
        if not word:
            if self.flaws is None or columns[-1] not in _NOTHING:
                raise wrong(where, "the word", word, "at least one character")
            self.flaws[EMPTY] += 1
            return
        self.sentences[-1].append(word)
        self.speakers[-1].append("" if speaker in _NOTHING else speaker)
        if columns[-1] not in _NOTHING:
            self._brackets(columns[-1], where)
        self.num_words += 1

    def end_sentence(self) -> None:
        """Blank lines; several are as one."""
        if self.sentences[-1]:
            self.sentences.append([])
            self.speakers.append([])

    def finished(self, where: str) -> CoreferenceDocument:
        """The whole of it."""
        for entity, opened in self.open.items():
            for _, begin in opened:
                self._refuse(
                    ValueError(f"{begin}: ({entity} is not closed; {entity}) must come before {where}")
                )
        speaks = any(speaker for speakers in self.speakers for speaker in speakers)
        return CoreferenceDocument(
            id=self.id,
            sentences=tuple(tuple(sentence) for sentence in self.sentences if sentence),
            clusters=in_order(self.clusters.values(), where),
            speakers=tuple(tuple(each) for each in self.speakers if each) if speaks else None,
        )

    def _brackets(self, cell: str, where: str) -> None:
        end = 0
        while end < len(cell):
            bracket = _BRACKET.match(cell, end)
            if bracket is None:
                raise wrong(where, "the last column", cell, "brackets such as '(3', '3)' and '(3)', or '-'")
            end = bracket.end()
            if entity := bracket["one"]:
                self.clusters[entity].append((self.num_words, self.num_words + 1))
            elif entity := bracket["open"]:
                self.open[entity].append((self.num_words, where))
            else:
                entity = bracket["close"]
                if self.open[entity]:
                    begin, _ = self.open[entity].pop()
                    self.clusters[entity].append((begin, self.num_words + 1))
                else:
                    right = f"without {entity}), for no ({entity} is open"
                    self._refuse(wrong(where, "the last column", cell, right))

    def _refuse(self, error: ValueError) -> None:
        """A bracket without its partner is counted, where there is a counter."""
        if self.flaws is None:
            raise error
        self.flaws[UNMATCHED] += 1


def _cells(document: CoreferenceDocument) -> dict[int, str]:
    """The last column, where there is anything in it."""
    closing: dict[int, list[str]] = defaultdict(list)
    opening: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for entity, cluster in enumerate(document.clusters):
        for at, (begin, end) in enumerate(cluster):
            for other in cluster[at + 1 :]:
                if begin < other[0] < end < other[1]:
                    raise wrong(document.id, "a cluster", cluster, "without mentions that cross")
            if end - begin == 1:
                opening[begin].append((end, f"({entity})"))
            else:
                opening[begin].append((end, f"({entity}"))
                closing[end - 1].append(f"{entity})")
    # Closing comes first: were it last, "(1" and "0)" without a bar between them would be "(10)". Of what
    # opens, the longest comes first.
    return {
        place: "|".join(
            [*closing[place], *(text for _, text in sorted(opening[place], key=lambda item: -item[0]))]
        )
        for place in opening.keys() | closing.keys()
    }
