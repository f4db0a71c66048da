"""ListOps: expressions by the published rules, worth what their values say."""

from collections import Counter
from pathlib import Path

import pytest

from longspan.data import formats
from longspan.data.listops import SYMBOLS, ListOpsRules, evaluate, generate, write_listops
from longspan.models.symbol_tokenizer import symbol_tokenizer

SHORT = ListOpsRules(longer_than=20, shorter_than=200)


def test_values_are_those_of_the_expressions() -> None:
    drawn = list(generate(60, seed=3, rules=SHORT))
    assert len({one.text for one in drawn}) == 60
    for one in drawn:
        assert 20 < len(one.text.split()) < 200
        assert str(evaluate(one.text)) == one.label


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MAX 2 9 [MIN 4 7 X 0 X", 9),
        ("[MED 1 5 8 9 X", 6),
        ("[MED 3 1 9 X", 3),
        ("[SM 9 9 9 X", 7),
    ],
)
def test_operators(text: str, value: int) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize("text", ["[MAX 2", "X", "1 2", "[MIN X", "[AVG 1 2 X"])
def test_what_is_no_expression_is_named(text: str) -> None:
    with pytest.raises(ValueError):
        evaluate(text)


def test_draws_follow_the_published_shares() -> None:
    """A node is a value three times in four, and lists have 2 to 10 parts."""
    drawn = [
        one.text.split()
        for one in generate(200, seed=0, rules=ListOpsRules(longer_than=2, shorter_than=5000))
    ]
    parts: Counter[int] = Counter()
    for symbols in drawn:
        stack: list[int] = []
        for symbol in symbols:
            if symbol == "X":
                parts[stack.pop()] += 1
            elif stack:
                stack[-1] += 1
            if symbol.startswith("["):
                stack.append(0)
    assert set(parts) == set(range(2, 11))


def test_files_are_read_back(tmp_path: Path) -> None:
    drawn = list(generate(5, seed=1, rules=SHORT))
    assert write_listops(tmp_path / "a.tsv", iter(drawn)) == 5
    read = list(formats.read(tmp_path / "a.tsv", "listops"))
    assert [(one.text, one.label) for one in read] == [(one.text, one.label) for one in drawn]  # pyright: ignore
    published = tmp_path / "b.tsv"
    published.write_text("Source\tTarget\n( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )\t9\n")
    (one,) = formats.read(published, "listops")
    assert one.text == "[MAX 2 9 [MIN 4 7 X X"  # pyright: ignore
    published.write_text("Source\tTarget\n7\t12\n")
    with pytest.raises(ValueError, match="line 2: the target is '12'"):
        list(formats.read(published, "listops"))


def test_a_token_a_symbol() -> None:
    tokenizer = symbol_tokenizer(SYMBOLS)
    ids = tokenizer("[MAX 2 9 X")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<cls>", "[MAX", "2", "9", "X"]
    assert len(tokenizer) == 4 + 15 and tokenizer.pad_token_id == 0
