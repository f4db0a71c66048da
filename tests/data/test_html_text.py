"""The text of web pages."""

import pytest

from longspan.data.html_text import charset_of, html_text


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<p>One <b>two</b>&amp;three<p>four", ["One two&three", "four"]),
        ("<h1>A<br>b</h1>text <a href='x'>link</a>, more", ["A", "b", "text link, more"]),
        ("<script>if (a < b) {}</script><style>p {}</style><title>t</title>text", ["text"]),
        ("<nav><ul><li>Home</ul></nav><p>text</p><form><p>Name</form>", ["text"]),
        ("<table><tr><td>a</td><td>b</td><tr><td>c</table>", ["a b", "c"]),
        ("<div>before</div><main><p>inside</p></main><div>after</div>", ["inside"]),
        ("<body><article>one</article><p>x<article>two</article>", ["one", "two"]),
        ("plain &lt;text&gt; &#228;", ["plain <text> ä"]),
        ("<p>never <nav>closed", ["never"]),
        ("<p>line\n  broken\tin the source<img src='x' alt='y'/>", ["line broken in the source"]),
        ("", []),
    ],
)
def test_text_of_pages(page: str, lines: list[str]) -> None:
    assert html_text(page) == "\n".join(lines)


def test_charset() -> None:
    assert charset_of(b'<html><meta charset="ISO-8859-1">') == "iso-8859-1"
    equivalent = b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">'
    assert charset_of(equivalent) == "windows-1252"
    assert charset_of(b"<p>charset=x") is None
