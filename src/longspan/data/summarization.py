"""Documents with their summaries: our JSONL, and the data sets that long documents are summarised on.

Summaries are as in the source: a line ends where it ends one. Of several references of one document, all are
given.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Literal
from xml.etree import ElementTree

from longspan.data.examples import SummarizedDocument
from longspan.data.files import OpenFile, counted, open_files, plain_name
from longspan.data.records import Record, read_json_object, read_jsonl, records_of

Part = Literal["train", "dev", "test"]

EMPTY_ARTICLE = "articles without a text or without an abstract"
TITLE_ALONE = "papers whose summary is their title alone"
_SENTENCE_MARK = re.compile(r"\s*</?S>\s*")
_HUMAN_SUMMARY = ".scisummnet_human.txt"


def read_summarized(path: Path, *, targets: bool = True) -> Iterator[SummarizedDocument]:
    """Our JSONL: ``{"id", "text", "summary"}``, or ``"summaries"``, a list; ``"query"`` where one is asked.

    Args:
        path: plain, .gz or .xz.
        targets: whether a summary must be there.
    """
    for record in read_jsonl(path, unique="id"):
        if record.has("summaries"):
            summaries = record.texts("summaries")
        elif record.has("summary") or targets:
            summaries = (record.text("summary"),)
        else:
            summaries = ()
        if targets and not summaries:
            raise record.error("summaries", "a list of at least one summary")
        yield SummarizedDocument(
            id=record.text_or_number("id"),
            text=record.text("text"),
            query=record.text("query") if record.has("query") else "",
            summaries=summaries,
        )


def read_scientific_papers(
    path: Path, *, dropped: Counter[str] | None = None
) -> Iterator[SummarizedDocument]:
    """arXiv and PubMed (Cohan et al. 2018): papers, a sentence a line, with their abstracts.

    Args:
        path: JSONL with ``article_id``, ``article_text`` and ``abstract_text``, both lists of sentences.
        dropped: counts papers without a text or without an abstract, of which the published files have some.
    """
    with counted(path, dropped) as counter:
        for record in read_jsonl(path, unique="article_id"):
            text = "\n".join(record.texts("article_text"))
            marked = record.texts("abstract_text")
            abstract = "\n".join(_SENTENCE_MARK.sub("", sentence) for sentence in marked)
            if not text.strip() or not abstract.strip():
                counter[EMPTY_ARTICLE] += 1
                continue
            yield SummarizedDocument(id=record.text("article_id"), text=text, summaries=(abstract,))


def read_cnn_dailymail(path: Path) -> Iterator[SummarizedDocument]:
    """News with their highlights.

    Args:
        path: JSONL with ``id``, ``article`` and ``highlights``; or with ``document`` and ``summary``, and
            the number of the line for an id.
    """
    for number, record in enumerate(read_jsonl(path), 1):
        text, summary = ("article", "highlights") if record.has("article") else ("document", "summary")
        yield SummarizedDocument(
            id=record.text_or_number("id") if record.has("id") else str(number),
            text=record.text(text),
            summaries=(record.text(summary),),
        )


def read_qmsum(path: Path, *, split: Part | None = None) -> Iterator[SummarizedDocument]:
    """QMSum (Zhong et al. 2021): meetings, and what is asked about them; a query is an example.

    Args:
        path: a meeting's JSON, or a folder or an archive of them (``data/ALL``).
        split: only meetings in the folder ``train``, ``val`` (here "dev") or ``test``.
    """
    for file in open_files(path, "*.json"):
        if split is not None and _folder(file) != ("val" if split == "dev" else split):
            continue
        meeting = read_json_object(file)
        turns = meeting.records("meeting_transcripts")
        text = "\n".join(f"{turn.text('speaker')}: {turn.text('content')}" for turn in turns)
        for kind in ("general", "specific"):
            for at, asked in enumerate(meeting.records(f"{kind}_query_list"), 1):
                yield SummarizedDocument(
                    id=f"{file.stem}/{kind}-{at}",
                    text=text,
                    query=asked.text("query"),
                    summaries=(asked.text("answer"),),
                )


def read_squality(path: Path, *, split: Part | None = None) -> Iterator[SummarizedDocument]:
    """SQuALITY (Wang et al. 2022): stories, and questions about them with four answers each.

    Args:
        path: a JSONL of stories, or a folder or an archive with ``train``, ``dev`` and ``test.jsonl``.
        split: only the file of this name.
    """
    for file in open_files(path, "*.jsonl"):
        if split is None or plain_name(file.name) == f"{split}.jsonl":
            for story in records_of(file):
                yield from _questions_of(story)


def read_scisummnet(path: Path, *, dropped: Counter[str] | None = None) -> Iterator[SummarizedDocument]:
    """ScisummNet 2019 (Yasunaga et al.): whole papers of the ACL, a sentence a line, with human summaries.

    Args:
        path: the folder of the papers' folders, or an archive of it. In each, ``Reference_XML`` has the
            paper, and ``summary`` what is to be written, behind the title.
        dropped: counts papers whose summary is a title alone, of which there are four.

    Raises:
        ValueError: a paper lacks its summary, or a summary its paper.
    """
    waiting: dict[str, str] = {}
    found = False
    with counted(path, dropped) as counter:
        for file in open_files(path):
            if plain_name(file.name).endswith(".xml"):
                waiting[file.stem] = _paper(file)
            elif plain_name(file.name).endswith(_HUMAN_SUMMARY):
                found = True
                if file.stem not in waiting:
                    raise ValueError(
                        f"{file.name} comes before {file.stem}.xml; the paper must be there first"
                    )
                text = waiting.pop(file.stem)
                # The first line is the paper's title.
                summary = file.text().strip().partition("\n")[2].strip()
                if summary:
                    yield SummarizedDocument(id=file.stem, text=text, summaries=(summary,))
                else:
                    counter[TITLE_ALONE] += 1
    if waiting:
        raise ValueError(f"{path}: {min(waiting)}.xml has no {min(waiting)}{_HUMAN_SUMMARY}")
    if not found:
        raise ValueError(f"{path} has no *{_HUMAN_SUMMARY}; it must be a folder or an archive of ScisummNet")


def text_of(document: SummarizedDocument) -> str:
    """What no two parts of a seeded split share: several queries may be asked about one text."""
    return document.text


def _folder(file: OpenFile) -> str:
    return PurePosixPath(file.name).parent.name


def _questions_of(story: Record) -> Iterator[SummarizedDocument]:
    passage = story.record("metadata").text_or_number("passage_id")
    text = story.text("document")
    for question in story.records("questions"):
        yield SummarizedDocument(
            id=f"{passage}/{question.integer('question_number')}",
            text=text,
            query=question.text("question_text"),
            summaries=tuple(response.text("response_text") for response in question.records("responses")),
        )


def _paper(file: OpenFile) -> str:
    """The title, the abstract and the sections, a sentence a line, the sections' titles too."""
    try:
        root = ElementTree.fromstring(file.text())
    except ElementTree.ParseError as error:
        raise ValueError(f"{file.name}: {error}; it must be XML") from error
    lines: list[str] = []
    for element in root.iter():
        if element.tag == "SECTION":
            lines.append(element.get("title", ""))
        elif element.tag == "S":
            lines.append("".join(element.itertext()))
    tidy = (" ".join(line.split()) for line in lines)
    return "\n".join(line for line in tidy if line)
