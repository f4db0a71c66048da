"""Short models of random weights, and inputs for them."""

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

LENGTH = 40
"""The most tokens that the short models read."""

SEPARATOR = 2

BEGINNINGS = {"Roberta": 42, "XLMRoberta": 42, "Camembert": 42, "Data2VecText": 42, "Bert": 40}
"""How the names of classes begin, and rows of their position tables."""

ENDINGS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)


def short_model(name: str, *, seed: int = 0, pooler: bool = True, **fields: Any) -> PreTrainedModel:
    """A class of transformers, by name, tiny, in eval mode; no weight is 0 or 1 by default."""
    beginning = next(beginning for beginning in BEGINNINGS if name.startswith(beginning))
    config = getattr(transformers, f"{beginning}Config")(
        **{
            "vocab_size": 99,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "max_position_embeddings": BEGINNINGS[beginning],
            "layer_norm_eps": 1e-6,
            "sep_token_id": SEPARATOR,
            **fields,
        }
    )
    kind = getattr(transformers, name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind(config) if pooler else kind(config, add_pooling_layer=False)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def inputs(model: PreTrainedModel, lengths: tuple[int, ...] = (30, 17, 23)) -> dict[str, Tensor]:
    """A padded batch of two-part texts: tokens, mask and segments."""
    generator = torch.Generator().manual_seed(1)
    shape = (len(lengths), max(lengths))
    ids = torch.randint(5, 99, shape, generator=generator)
    segments = torch.zeros(shape, dtype=torch.int64)
    mask = torch.zeros(shape, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, [7, length - 1]] = SEPARATOR
        ids[row, length:] = model.config.pad_token_id
        segments[row, 8:] = 1
        mask[row, :length] = 1
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    if type(model).__name__.endswith("MultipleChoice"):
        given = {name: torch.stack([x, x.flip(0)], 1) for name, x in given.items()}
    return given


def outputs(model: PreTrainedModel, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a model computes; 0 at padding, where nobody looks."""
    with torch.no_grad():
        found = model(**given)
    mask = given["attention_mask"]
    result: dict[str, Tensor] = {}
    for name, x in found.items():
        per_token = x.shape[:2] == mask.shape
        result[name] = x * mask.view(*mask.shape, *[1] * (x.dim() - 2)) if per_token else x
    return result


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    """Both have the same outputs, and equal numbers in them."""
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        torch.testing.assert_close(found[name], x, rtol=tolerance, atol=tolerance)
