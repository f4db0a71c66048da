"""The readers by the names that the command line knows them by.

Those named after a task read our JSONL; those named after a data set read its official files.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from longspan.data import (
    byte_texts,
    candidates,
    classification,
    coreference,
    extractive_qa,
    hotpotqa,
    imdb,
    listops,
    peerread,
    quac,
    summarization,
    tagging,
    texts,
    triviaqa,
)
from longspan.data.examples import Example
from longspan.data.format_names import FormatName
from longspan.data.options import NO_OPTIONS, ReaderOptions

_READERS: Mapping[FormatName, Callable[[Path], Iterator[Example]]] = {
    "bytes": byte_texts.read_bytes,
    "enwik8": byte_texts.read_enwik8_bytes,
    "text8": byte_texts.read_text8,
    "qa": extractive_qa.read_questions,
    "candidates": candidates.read_candidates,
    "multihop": hotpotqa.read_multihop,
    "hyperpartisan": classification.read_hyperpartisan,
    "peerread": peerread.read_peerread,
    "listops": listops.read_listops,
    "squad": extractive_qa.read_squad,
    "triviaqa": triviaqa.read_triviaqa,
    "wikihop": candidates.read_wikihop,
    "wikitext": texts.read_wikitext,
    "cnn-dailymail": summarization.read_cnn_dailymail,
    "qmsum": summarization.read_qmsum,
    "squality": summarization.read_squality,
}


def read(
    path: Path,
    format: FormatName,
    dropped: Counter[str] | None = None,
    *,
    targets: bool = True,
    options: ReaderOptions = NO_OPTIONS,
) -> Iterator[Example]:
    """The examples of a file, a folder or an archive.

    Args:
        path: where they are.
        format: how they are written.
        dropped: counts what is left out by rule, by reason; without it, that is logged.
        targets: whether our JSONL must have what is learned: labels, tags, clusters, summaries. What is
            wanted of new documents is not known.
        options: of the format's reader.

    Raises:
        ValueError: the reader does not take one of the options.
    """
    given = options.of_format(format)
    match format:
        case "text":
            return texts.read_texts(path, **given)
        case "conll-tags":
            return tagging.read_conll_tags(path, **given)
        case "imdb":
            return imdb.read_imdb(path, dropped=dropped)
        case "classification":
            return classification.read_labelled(path, targets=targets)
        case "coreference":
            return coreference.read_coreference(path, targets=targets)
        case "tagging":
            return tagging.read_tagged(path, targets=targets)
        case "summarization":
            return summarization.read_summarized(path, targets=targets)
        case "scientific-papers":
            return summarization.read_scientific_papers(path, dropped=dropped)
        case "scisummnet":
            return summarization.read_scisummnet(path, dropped=dropped)
        case "quac":
            return quac.read_quac(path, dropped=dropped)
        case "hotpotqa":
            return hotpotqa.read_hotpotqa(path, dropped=dropped)
        case "conll-2012":
            return coreference.read_conll_2012(path, dropped=dropped, **given)
        case "ontogum":
            return coreference.read_ontogum(path, dropped=dropped)
        case _:
            return _READERS[format](path)
