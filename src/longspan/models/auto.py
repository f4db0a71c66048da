"""Our models in transformers' Auto classes."""

from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from longspan.models.causal_lm import LongformerCausalModel, LongformerForCausalLM
from longspan.models.causal_lm_config import LongformerCausalLMConfig
from longspan.models.led import LEDModel
from longspan.models.led_config import STOCK_MODEL_TYPE as STOCK_LED
from longspan.models.led_config import LEDConfig
from longspan.models.led_heads import LEDForConditionalGeneration, LEDForQuestionAnswering
from longspan.models.long_range import LongRangeModel
from longspan.models.long_range_config import LongRangeConfig
from longspan.models.long_range_heads import (
    LongRangeForCausalLM,
    LongRangeForMaskedLM,
    LongRangeForSequenceClassification,
)
from longspan.models.longformer import LongformerModel
from longspan.models.longformer_config import STOCK_MODEL_TYPE, LongformerConfig
from longspan.models.longformer_heads import (
    LongformerForMaskedLM,
    LongformerForMultipleChoice,
    LongformerForQuestionAnswering,
    LongformerForSequenceClassification,
    LongformerForTokenClassification,
)


def register_auto_classes(*, replace_stock: bool = False) -> None:
    """Lets ``AutoModel.from_pretrained`` and its like find longspan's classes.

    Checkpoints that stock transformers cannot compute are always found. Safe to call again.

    Args:
        replace_stock: take longspan's classes also for checkpoints of types "longformer" and "led", which
            transformers' own would load otherwise.
    """
    CONFIG_MAPPING.register(LongformerConfig.model_type, LongformerConfig, exist_ok=True)
    if replace_stock:
        CONFIG_MAPPING.register(STOCK_MODEL_TYPE, LongformerConfig, exist_ok=True)
        CONFIG_MAPPING.register(STOCK_LED, LEDConfig, exist_ok=True)
    AutoModel.register(LongformerConfig, LongformerModel, exist_ok=True)
    AutoModelForMaskedLM.register(LongformerConfig, LongformerForMaskedLM, exist_ok=True)
    AutoModelForSequenceClassification.register(
        LongformerConfig, LongformerForSequenceClassification, exist_ok=True
    )
    AutoModelForQuestionAnswering.register(LongformerConfig, LongformerForQuestionAnswering, exist_ok=True)
    AutoModelForTokenClassification.register(
        LongformerConfig, LongformerForTokenClassification, exist_ok=True
    )
    AutoModelForMultipleChoice.register(LongformerConfig, LongformerForMultipleChoice, exist_ok=True)
    CONFIG_MAPPING.register(LEDConfig.model_type, LEDConfig, exist_ok=True)
    AutoModel.register(LEDConfig, LEDModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(LEDConfig, LEDForConditionalGeneration, exist_ok=True)
    AutoModelForQuestionAnswering.register(LEDConfig, LEDForQuestionAnswering, exist_ok=True)
    CONFIG_MAPPING.register(LongformerCausalLMConfig.model_type, LongformerCausalLMConfig, exist_ok=True)
    AutoModel.register(LongformerCausalLMConfig, LongformerCausalModel, exist_ok=True)
    AutoModelForCausalLM.register(LongformerCausalLMConfig, LongformerForCausalLM, exist_ok=True)
    CONFIG_MAPPING.register(LongRangeConfig.model_type, LongRangeConfig, exist_ok=True)
    AutoModel.register(LongRangeConfig, LongRangeModel, exist_ok=True)
    AutoModelForCausalLM.register(LongRangeConfig, LongRangeForCausalLM, exist_ok=True)
    AutoModelForMaskedLM.register(LongRangeConfig, LongRangeForMaskedLM, exist_ok=True)
    AutoModelForSequenceClassification.register(
        LongRangeConfig, LongRangeForSequenceClassification, exist_ok=True
    )


register_auto_classes()
