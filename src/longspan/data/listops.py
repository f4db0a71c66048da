"""ListOps of the Long Range Arena (arXiv 2011.04006, section 2.2.1): nested lists of digits, and what they
come to.

`generate` draws expressions by the published rules; a file of them is a TSV with ``Source`` and ``Target``,
which is also how the published files are read. Brackets that only group are left out, and a list's end is the
symbol ``X``.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from longspan.data.examples import LabelledDocument
from longspan.data.files import open_file

_VALUE_SHARE = 0.75
_END = "X"


def _median(values: list[int]) -> int:
    """Of an even number of values, the mean of the two in the middle, cut off."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) // 2


_OPERATORS: Mapping[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": _median,
    "[SM": lambda values: sum(values) % 10,
}
SYMBOLS = (*map(str, range(10)), *_OPERATORS, _END)
"""All that expressions are made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListOpsRules:
    """What expressions are drawn; by default those of the Long Range Arena."""

    max_depth: int = 10
    max_arguments: int = 10
    shorter_than: int = 2000
    longer_than: int = 500

    def __post_init__(self) -> None:
        if self.max_depth < 1 or self.max_arguments < 2:
            raise ValueError(
                f"max_depth is {self.max_depth} and max_arguments is {self.max_arguments}; they must be "
                "at least 1 and 2"
            )
        if self.shorter_than <= self.longer_than + 1:
            raise ValueError(
                f"longer_than is {self.longer_than} and shorter_than is {self.shorter_than}; there must be a "
                "length between them"
            )


def generate(count: int, *, seed: int, rules: ListOpsRules | None = None) -> Iterator[LabelledDocument]:
    """Expressions, no two alike.

    Args:
        count: how many.
        seed: of the drawing; the same one gives the same expressions.
        rules: that they follow.

    Returns:
        Documents whose text is symbols with spaces between, and whose label is a digit.
    """
    rules = rules or ListOpsRules()
    draw = random.Random(seed)
    seen: set[bytes] = set()
    while len(seen) < count:
        symbols: list[str] = []
        value = _grow(draw, symbols, 1, rules)
        # The published length counts a list's two brackets, and these are the operator and the end.
        if not rules.longer_than < len(symbols) < rules.shorter_than:
            continue
        text = " ".join(symbols)
        digest = blake2b(text.encode(), digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield LabelledDocument(id=f"listops-{seed}-{len(seen) - 1}", text=text, label=str(value))


def evaluate(text: str) -> int:
    """What an expression comes to.

    Raises:
        ValueError: it is none.
    """
    stack: list[tuple[str, list[int]]] = [("", [])]
    for symbol in text.split():
        if symbol in _OPERATORS:
            stack.append((symbol, []))
        elif symbol == _END:
            operator, values = stack.pop()
            if not stack or not values:
                raise ValueError(
                    f"{text[:40]!r} is no expression: a list ends that did not begin, or is empty"
                )
            stack[-1][1].append(_OPERATORS[operator](values))
        elif symbol.isdigit() and len(symbol) == 1:
            stack[-1][1].append(int(symbol))
        else:
            raise ValueError(f"{symbol!r} is no symbol of ListOps; there are {' '.join(SYMBOLS)}")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise ValueError(f"{text[:40]!r} is no expression: lists are left open, or it has several values")
    return stack[0][1][0]


def write_listops(path: Path, documents: Iterator[LabelledDocument]) -> int:
    """Writes expressions as the published files are written; how many there were."""
    count = 0
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write("Source\tTarget\n")
            for one in documents:
                symbols = ("]" if symbol == _END else symbol for symbol in one.text.split())
                file.write(f"{' '.join(symbols)}\t{one.label}\n")
                count += 1
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return count


def read_listops(path: Path) -> Iterator[LabelledDocument]:
    """A TSV of expressions: those of `write_listops`, or the published ones.

    Raises:
        ValueError: a line is not an expression with its value.
    """
    with open_file(path) as file:
        for number, line in file.lines():
            source, tab, target = line.partition("\t")
            if number == 1 and source == "Source":
                continue
            if not tab or target not in SYMBOLS[:10]:
                raise ValueError(
                    f"{path}, line {number}: the target is {target!r}; it must be a digit after a tab"
                )
            symbols = [_END if one == "]" else one for one in source.split() if one not in ("(", ")")]
            yield LabelledDocument(id=f"{path.name}-{number}", text=" ".join(symbols), label=target)


def _grow(draw: random.Random, symbols: list[str], depth: int, rules: ListOpsRules) -> int:
    """Appends an expression to ``symbols``; returns its value."""
    if depth >= rules.max_depth or draw.random() < _VALUE_SHARE:
        value = draw.randrange(10)
        symbols.append(str(value))
        return value
    operator = draw.choice(list(_OPERATORS))
    symbols.append(operator)
    values = [_grow(draw, symbols, depth + 1, rules) for _ in range(draw.randint(2, rules.max_arguments))]
    symbols.append(_END)
    return _OPERATORS[operator](values)
