"""Transformers that read long documents, at linear cost.

The names below are imported when they are first used, so that `longspan --help` does not wait for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longspan.apps.classifier import Class as Class
    from longspan.apps.classifier import Classifier as Classifier
    from longspan.apps.loading import load as load
    from longspan.apps.reader import Answer as Answer
    from longspan.apps.reader import Reader as Reader
    from longspan.apps.reader import Reading as Reading
    from longspan.apps.searcher import Passage as Passage
    from longspan.apps.searcher import Searcher as Searcher
    from longspan.apps.summarizer import Summarizer as Summarizer
    from longspan.apps.summarizer import Summary as Summary
    from longspan.attention.attend import attend as attend
    from longspan.attention.attend import attend_global as attend_global
    from longspan.attention.pattern import Pattern as Pattern
    from longspan.conversion.lengthen import lengthen as lengthen
    from longspan.conversion.packed_texts import encode_packed as encode_packed
    from longspan.conversion.packed_texts import generate_packed as generate_packed
    from longspan.conversion.speed_up import restore as restore
    from longspan.conversion.speed_up import speed_up as speed_up
    from longspan.models.auto import register_auto_classes as register_auto_classes
    from longspan.models.causal_lm import LongformerForCausalLM as LongformerForCausalLM
    from longspan.models.causal_lm_config import LongformerCausalLMConfig as LongformerCausalLMConfig
    from longspan.models.led import LEDModel as LEDModel
    from longspan.models.led_config import LEDConfig as LEDConfig
    from longspan.models.led_heads import LEDForConditionalGeneration as LEDForConditionalGeneration
    from longspan.models.led_heads import LEDForQuestionAnswering as LEDForQuestionAnswering
    from longspan.models.long_range import LongRangeModel as LongRangeModel
    from longspan.models.long_range_config import LongRangeConfig as LongRangeConfig
    from longspan.models.long_range_heads import LongRangeForCausalLM as LongRangeForCausalLM
    from longspan.models.long_range_heads import LongRangeForMaskedLM as LongRangeForMaskedLM
    from longspan.models.long_range_heads import (
        LongRangeForSequenceClassification as LongRangeForSequenceClassification,
    )
    from longspan.models.longformer import LongformerModel as LongformerModel
    from longspan.models.longformer_config import LongformerConfig as LongformerConfig
    from longspan.models.longformer_heads import LongformerForMaskedLM as LongformerForMaskedLM
    from longspan.models.longformer_heads import LongformerForMultipleChoice as LongformerForMultipleChoice
    from longspan.models.longformer_heads import (
        LongformerForQuestionAnswering as LongformerForQuestionAnswering,
    )
    from longspan.models.longformer_heads import (
        LongformerForSequenceClassification as LongformerForSequenceClassification,
    )
    from longspan.models.longformer_heads import (
        LongformerForTokenClassification as LongformerForTokenClassification,
    )

__version__ = "0.1.0"

# Every public name, and the module that it comes from. The models come through `auto`, which also
# makes them known to transformers.
_HOME = {
    "Answer": "longspan.apps.reader",
    "Class": "longspan.apps.classifier",
    "Classifier": "longspan.apps.classifier",
    "LEDConfig": "longspan.models.auto",
    "LEDForConditionalGeneration": "longspan.models.auto",
    "LEDForQuestionAnswering": "longspan.models.auto",
    "LEDModel": "longspan.models.auto",
    "LongRangeConfig": "longspan.models.auto",
    "LongRangeForCausalLM": "longspan.models.auto",
    "LongRangeForMaskedLM": "longspan.models.auto",
    "LongRangeForSequenceClassification": "longspan.models.auto",
    "LongRangeModel": "longspan.models.auto",
    "LongformerCausalLMConfig": "longspan.models.auto",
    "LongformerConfig": "longspan.models.auto",
    "LongformerForCausalLM": "longspan.models.auto",
    "LongformerForMaskedLM": "longspan.models.auto",
    "LongformerForMultipleChoice": "longspan.models.auto",
    "LongformerForQuestionAnswering": "longspan.models.auto",
    "LongformerForSequenceClassification": "longspan.models.auto",
    "LongformerForTokenClassification": "longspan.models.auto",
    "LongformerModel": "longspan.models.auto",
    "Passage": "longspan.apps.searcher",
    "Pattern": "longspan.attention.pattern",
    "Reader": "longspan.apps.reader",
    "Reading": "longspan.apps.reader",
    "Searcher": "longspan.apps.searcher",
    "Summarizer": "longspan.apps.summarizer",
    "Summary": "longspan.apps.summarizer",
    "attend": "longspan.attention.attend",
    "attend_global": "longspan.attention.attend",
    "encode_packed": "longspan.conversion.packed_texts",
    "generate_packed": "longspan.conversion.packed_texts",
    "lengthen": "longspan.conversion.lengthen",
    "load": "longspan.apps.loading",
    "register_auto_classes": "longspan.models.auto",
    "restore": "longspan.conversion.speed_up",
    "speed_up": "longspan.conversion.speed_up",
}

__all__ = [
    "Answer",
    "Class",
    "Classifier",
    "LEDConfig",
    "LEDForConditionalGeneration",
    "LEDForQuestionAnswering",
    "LEDModel",
    "LongRangeConfig",
    "LongRangeForCausalLM",
    "LongRangeForMaskedLM",
    "LongRangeForSequenceClassification",
    "LongRangeModel",
    "LongformerCausalLMConfig",
    "LongformerConfig",
    "LongformerForCausalLM",
    "LongformerForMaskedLM",
    "LongformerForMultipleChoice",
    "LongformerForQuestionAnswering",
    "LongformerForSequenceClassification",
    "LongformerForTokenClassification",
    "LongformerModel",
    "Passage",
    "Pattern",
    "Reader",
    "Reading",
    "Searcher",
    "Summarizer",
    "Summary",
    "attend",
    "attend_global",
    "encode_packed",
    "generate_packed",
    "lengthen",
    "load",
    "register_auto_classes",
    "restore",
    "speed_up",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'longspan' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOME))
