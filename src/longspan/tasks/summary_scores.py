"""What tasks that write summaries and tasks that choose them share: formats, and scores; baselines too."""

from collections.abc import Mapping, Sequence
from typing import Any

from longspan.data.examples import SummarizedDocument
from longspan.data.format_names import FormatName
from longspan.metrics.sentences import sentences
from longspan.metrics.summaries import score_summaries

SUMMARY_FORMATS: tuple[FormatName, ...] = (
    "summarization",
    "scientific-papers",
    "cnn-dailymail",
    "qmsum",
    "squality",
    "scisummnet",
)
"""What documents with summaries are read from."""
BEST_SCORE = "rouge_lsum"


def summary_scores(
    examples: Sequence[SummarizedDocument], predictions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """F1 of ROUGE-1, 2, L and Lsum; of several references, the best counts.

    Args:
        examples: with references.
        predictions: with "id" and "summary".
    """
    scores = score_summaries(
        {one["id"]: _lines(one["summary"]) for one in predictions},
        {example.id: [_lines(one) for one in example.summaries] for example in examples},
    )
    names = ("rouge_1", "rouge_2", "rouge_l", BEST_SCORE)
    return {name: getattr(scores, name).f1 for name in names}


def _lines(summary: str) -> str:
    """A sentence a line, as ROUGE-Lsum wants it."""
    return "\n".join(sentences(summary))
