"""PeerRead: papers that were accepted or not; the published folders, and JSONL with a paper a line."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from longspan.data.examples import LabelledDocument
from longspan.data.files import ARCHIVES, OpenFile, open_files
from longspan.data.records import Record, read_json_object, read_jsonl, wrong

_PARTS = ("train", "dev", "test")

Split = Literal["train", "dev", "test"]


def read_peerread(path: Path, *, split: Split | None = None) -> Iterator[LabelledDocument]:
    """Papers labelled "accepted" and "rejected": title, abstract and body, a line each.

    Args:
        path: the folder of a section, such as ``arxiv.cs.cl_2007-2017``, or an archive of it, with
            ``train/parsed_pdfs/*.pdf.json`` and ``train/reviews/*.json`` and the like; or JSONL,
            ``{"split", "id", "accepted", "title", "abstract", "body"}``. Both hold all splits.
        split: only this one.

    Raises:
        ValueError: a paper has no file in ``reviews``, or that does not say whether it was accepted, as in
            the sections of ACL and CoNLL, among others.
    """
    if path.is_dir() or path.name.endswith(ARCHIVES):
        yield from _read_folders(path, split)
        return
    for record in read_jsonl(path, unique="id"):
        part = record.one_of("split", _PARTS)
        label = _label(record)
        if split in (None, part):
            text = "\n".join(record.text(name) for name in ("title", "abstract", "body"))
            yield LabelledDocument(id=record.text("id"), text=text, label=label)


def _read_folders(path: Path, split: Split | None) -> Iterator[LabelledDocument]:
    said: dict[tuple[str, str], tuple[str, str, str]] = {}
    for part, id, file in _files(path, "reviews", split):
        record = _mended(read_json_object(file))
        said[part, id] = _label(record), record.text("title"), record.text("abstract")
    for part, id, file in _files(path, "parsed_pdfs", split):
        if (part, id) not in said:
            raise wrong(file.name, "the paper", id, f"one that {part}/reviews has a file of")
        label, title, abstract = said[part, id]
        body = _body(read_json_object(file).record("metadata"))
        yield LabelledDocument(id=id, text="\n".join((title, abstract, body)), label=label)


def _files(path: Path, folder: str, split: Split | None) -> Iterator[tuple[str, str, OpenFile]]:
    """The files of all folders of a name, with the split and the paper that each is of."""
    found = False
    for file in open_files(path, "*.json"):
        part, within, name = ("", "", *PurePosixPath(file.name).parts)[-3:]
        if within == folder and part in _PARTS:
            found = True
            if split in (None, part):
                yield part, name.removesuffix(".json").removesuffix(".pdf"), file
    if not found:
        raise ValueError(f"{path} has no train/{folder}/*.json and the like; it must be PeerRead")


def _body(metadata: Record) -> str:
    """The sections, each behind its heading, blank lines between them; references are not among them."""
    sections: list[str] = []
    for section in metadata.records("sections") if metadata.has("sections") else ():
        mended = _mended(section)
        lines = [mended.text(name) for name in ("heading", "text") if mended.has(name)]
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _label(record: Record) -> str:
    return "accepted" if record.flag("accepted") else "rejected"


def _mended(record: Record) -> Record:
    """Without half surrogate pairs, which formulas in PDFs left behind."""

    def mend(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return Record(record.where, {name: mend(value) for name, value in record.fields.items()})
