"""The tasks by the names that recipes know them by."""

from collections.abc import Mapping
from typing import Any

from longspan.tasks.candidates import CandidateScoring
from longspan.tasks.causal_lm import CausalLM
from longspan.tasks.classification import Classification
from longspan.tasks.coreference import Coreference
from longspan.tasks.extractive_qa import ExtractiveQA
from longspan.tasks.extractive_summarization import ExtractiveSummarization
from longspan.tasks.masked_lm import MaskedLM
from longspan.tasks.multihop_qa import MultiHopQA
from longspan.tasks.summarization import Summarization
from longspan.tasks.task import Task
from longspan.tasks.token_classification import TokenClassification

TASKS: Mapping[str, type[Task[Any, Any]]] = {
    task.name: task
    for task in (
        MaskedLM,
        CausalLM,
        Classification,
        ExtractiveQA,
        CandidateScoring,
        MultiHopQA,
        Coreference,
        TokenClassification,
        Summarization,
        ExtractiveSummarization,
    )
}
