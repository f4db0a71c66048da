"""Mahoney's rules, one by one and together, on made-up XML."""

from pathlib import Path

import pytest

from longspan.data.text8 import clean, read_records, write_text8
from tests.cli.running import ends, mistake

from .writing import write


def article(text: str) -> str:
    return f'<page>\n<title>Not shown</title>\n<text xml:space="preserve">{text}</text>\n</page>\n'


def cleaned(xml: str, folder: Path) -> str:
    return b"".join(clean(read_records(write(folder / "dump.xml", xml)))).decode()


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("Plain text, in 1999!", "plain text in one nine nine nine"),
        ("Größe", "gr e"),
        ("a &lt;ref name=x&gt;gone&lt;/ref&gt; b", "a b"),
        ("a &lt;br /&gt; b &lt;i&gt;c&lt;/i&gt;", "a b c"),
        ("see [http://example.org/a?b the site] here", "see the site here"),
        ("[[Image:cat.jpg|thumb|left|200px|A ''big'' cat]] sat", "a big cat sat"),
        ("[[Category:Cats|*]]", "cats"),
        ("[[category:Small cats]]", "small cats"),
        ("[[fr:Chat]] [[zh-min-nan:Niau]]", ""),
        ("a [[Dog|hound]] and a [[cat]]", "a hound and a cat"),
        ("{{stub}} left {| a table |} over", "left over"),
        ("a&amp;nbsp;b &amp;mdash; c", "a b c"),
        ("== Title ==\n* item", "title item"),
    ],
)
def test_rules(text: str, visible: str, tmp_path: Path) -> None:
    assert cleaned(article(text), tmp_path).split() == visible.split()
    assert "  " not in cleaned(article(text), tmp_path)


def test_only_articles_are_read(tmp_path: Path) -> None:
    xml = (
        "<mediawiki>\nheader " + article("#REDIRECT [[Elsewhere]]") + article("One") + article("Two") + "end"
    )
    assert cleaned(xml, tmp_path) == " one two"


def test_a_comparison_is_no_tag(tmp_path: Path) -> None:
    # A record ends at any ">"; what stands before it on its last line is taken for a tag.
    assert cleaned(article("first\nsecond > third"), tmp_path) == " first second third"


def test_size_is_a_limit_and_reading_is_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = write(tmp_path / "dump.xml.xz", article("abc def ghi") * 9)
    assert write_text8(dump, tmp_path / "text8", size=21) == 21
    whole = b"".join(clean(read_records(dump)))
    assert (tmp_path / "text8").read_bytes() == whole[:21]
    monkeypatch.setattr("longspan.data.text8._CHUNK", 7)
    assert b"".join(clean(read_records(dump))) == whole


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write(tmp_path / "dump.xml", article("abc"))
    assert ends("data", "text8", dump, tmp_path / "text8") == 0
    assert "4 bytes in" in capsys.readouterr().out
    wrong = write(tmp_path / "no.xml", "<a>")
    assert "no <text ...>" in mistake(capsys, "data", "text8", wrong, tmp_path / "none")
    assert not (tmp_path / "none").exists()
