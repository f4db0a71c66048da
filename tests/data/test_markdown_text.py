"""The text of Markdown."""

from longspan.data.markdown_text import markdown_text

SOURCE = """---
title: x
---
# The *harbour* of [Ternsund](https://example.org) #

It was built for **forty** boats. Last
winter `ninety` asked ![picture](a.png) for a place.
<!-- a
comment --> Two_words stay_so, and 2 * 3 * 4 too.

```python
print("code")
```

Setext
======

> A quote
> goes on.

- one item
  goes on
- [x] two
3. three

| boats | places |
|---|:-:|
| 90 | 40 |

[ref]: https://example.org
See [the page][ref] or <https://example.org>, <b>bold</b>, ~~gone~~ and \\*stars\\*.
"""


def test_marks_are_gone_and_paragraphs_are_lines() -> None:
    assert markdown_text(SOURCE).split("\n") == [
        "The harbour of Ternsund",
        "It was built for forty boats. Last winter ninety asked for a place. "
        "Two_words stay_so, and 2 * 3 * 4 too.",
        "Setext",
        "A quote goes on.",
        "one item goes on",
        "two",
        "three",
        "boats places",
        "90 40",
        "See the page or https://example.org, bold, gone and *stars*.",
    ]


def test_nothing_of_nothing() -> None:
    assert markdown_text("") == ""
    assert markdown_text("```\nonly code, never closed") == ""
