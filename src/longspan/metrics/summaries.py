"""Summaries: ROUGE-1, 2, L and Lsum, through rouge-score.

ROUGE-Lsum compares sentence by sentence: put each sentence on a line of its own, in predictions and
references; without line ends it equals ROUGE-L. Nothing is split here, so that NLTK's data need not be there.
rouge-score keeps the letters a-z and digits and drops the rest: text in other scripts scores 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longspan.metrics.optional import needs
from longspan.metrics.scores import Ratios, Scores, mean, missing_ids

_NAMES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL", "rouge_lsum": "rougeLsum"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryScores(Scores):
    """Means over the documents of a data set."""

    rouge_1: Ratios
    rouge_2: Ratios
    rouge_l: Ratios
    rouge_lsum: Ratios
    documents: int
    missing: tuple[str, ...]
    """Documents without a summary; each counts as 0."""


def score_summaries(
    predictions: Mapping[str, str], references: Mapping[str, str | Sequence[str]], *, stem: bool = True
) -> SummaryScores:
    """Means over the documents of ``references``; predictions for others are ignored.

    Args:
        predictions: the summary of each document, by its id, a sentence a line.
        references: the right summary of each document, or several of them. Of several, each kind of ROUGE
            takes the one with the best F1, together with its precision and recall.
        stem: whether words are cut to their stems first, by Porter's rules, as most papers do.

    Raises:
        ModuleNotFoundError: rouge-score is not installed.
        ValueError: ``references`` is empty, or a document's list of references is.
    """
    with needs("rouge-score"):
        from rouge_score.rouge_scorer import RougeScorer
    missing = missing_ids(predictions, references, name="references")
    texts = {one: [text] if isinstance(text, str) else list(text) for one, text in references.items()}
    for one, several in texts.items():
        if not several:
            raise ValueError(f"references[{one!r}] is empty; a document needs at least one reference")

    scorer = RougeScorer(list(_NAMES.values()), use_stemmer=stem, split_summaries=False)
    found = [
        scorer.score_multi(several, predictions[one]) for one, several in texts.items() if one in predictions
    ]

    def averaged(kind: str) -> Ratios:
        return Ratios(
            precision=mean((scores[kind].precision for scores in found), len(texts)),
            recall=mean((scores[kind].recall for scores in found), len(texts)),
            f1=mean((scores[kind].fmeasure for scores in found), len(texts)),
        )

    return SummaryScores(
        **{field: averaged(kind) for field, kind in _NAMES.items()},
        documents=len(texts),
        missing=missing,
    )
