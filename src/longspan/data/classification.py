"""Documents with a class: our JSONL, and Hyperpartisan news."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from longspan.data.examples import LabelledDocument
from longspan.data.files import open_file, whole
from longspan.data.records import read_jsonl, wrong
from longspan.data.splits import Splits, train_dev_test


def read_labelled(path: Path, *, targets: bool = True) -> Iterator[LabelledDocument]:
    """Our JSONL: ``{"id", "text", "label"}``; labels are strings, or integers that become strings.

    Args:
        path: the file.
        targets: whether every document must have a label.
    """
    for record in read_jsonl(path, unique="id"):
        yield LabelledDocument(
            id=record.text_or_number("id"),
            text=record.text("text"),
            label=record.text_or_number("label") if targets or record.has("label") else "",
        )


def read_hyperpartisan(articles: Path, truth: Path | None = None) -> Iterator[LabelledDocument]:
    """Hyperpartisan news of SemEval-2019 task 4: the XML of the articles and that of their labels.

    Args:
        articles: ``articles-*.xml``.
        truth: ``ground-truth-*.xml``; by default the file of that name beside the articles.

    Returns:
        Articles labelled "true" and "false": the title and the paragraphs, a line each.

    Raises:
        ValueError: the two files do not have the same ids.
    """
    if truth is None:
        truth = articles.with_name(articles.name.replace("articles-", "ground-truth-", 1))
        if truth == articles:
            raise ValueError(f"articles is {articles}; its name must begin with articles-, or give the truth")
    labels: dict[str, str] = {}
    for where, article in _xml_articles(truth):
        label = article.get("hyperpartisan")
        if label not in ("true", "false"):
            raise wrong(where, "hyperpartisan", label, "'true' or 'false'")
        labels[_new_id(article, where, labels)] = label
    seen: set[str] = set()
    for where, article in _xml_articles(articles):
        id = _new_id(article, where, seen)
        seen.add(id)
        if id not in labels:
            raise wrong(where, "id", id, f"among those of {truth}")
        yield LabelledDocument(id=id, text=_article_text(article), label=labels[id])
    if len(seen) < len(labels):
        missing = min(labels.keys() - seen)
        raise ValueError(f"{articles}: article {missing} is missing; {truth} has {len(labels)} articles")


def split_hyperpartisan(articles: Path, truth: Path | None = None, *, seed: int) -> Splits[LabelledDocument]:
    """80/10/10 with the same share of both labels.

    Articles with the same longest paragraph stay together: the set has three that are there twice. It is
    small: report the mean over several seeds.
    """
    return train_dev_test(
        read_hyperpartisan(articles, truth), seed=seed, stratum=label_of, group=longest_paragraph
    )


def label_of(document: LabelledDocument) -> str:
    """What Hyperpartisan's parts have the same share of."""
    return document.label


def longest_paragraph(document: LabelledDocument) -> str:
    """What no two of Hyperpartisan's parts share."""
    return max(document.text.split("\n"), key=len)


def _xml_articles(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """The articles of a file, each with its place, and forgotten afterwards."""
    number = 0
    with open_file(path) as file, whole(str(path)):
        try:
            for _, element in ElementTree.iterparse(file.stream):
                if element.tag == "article":
                    number += 1
                    yield f"{path}, article {number}", element
                    element.clear()
        except ElementTree.ParseError as error:
            raise ValueError(f"{path}, after article {number}: {error}; it must be XML") from error
    if not number:
        raise ValueError(f"{path} has no <article>; it must be a file of SemEval-2019 task 4")


def _new_id(article: ElementTree.Element, where: str, taken: dict[str, str] | set[str]) -> str:
    id = article.get("id")
    if id is None:
        raise ValueError(f"{where}: id is missing; it must be a number")
    if id in taken:
        raise wrong(where, "id", id, "unique, but an article before has it too")
    return id


def _article_text(article: ElementTree.Element) -> str:
    """The title, and what stands in and between the paragraphs, one line each."""
    lines = [article.get("title", ""), article.text or ""]
    for child in article:
        inside = "".join(child.itertext())
        if child.tag == "p":
            lines += [inside, child.tail or ""]
        else:
            lines[-1] += inside + (child.tail or "")
    # Some articles were escaped once more before they were put into XML.
    tidy = (" ".join(unescape(line).split()) for line in lines)
    return "\n".join(line for line in tidy if line)
