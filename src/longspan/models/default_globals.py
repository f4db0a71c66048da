"""Which tokens a task makes global when the user does not say: Hugging Face's choices, per example.

Stock transformers counts separators over the whole batch, so a batch of one example with four and
one with two passes and gets wrong global tokens. Here every example is looked at by itself.
"""

import torch
from torch import Tensor


def classification_globals(
    attention_mask: Tensor | None, shape: tuple[int, int], device: torch.device
) -> Tensor:
    """[batch, length] int64: the first real token, which the classifier reads."""
    mask = torch.zeros(shape, dtype=torch.int64, device=device)
    if attention_mask is None:
        mask[:, :1] = 1
        return mask
    first = (attention_mask == 0).to(torch.uint8).argmin(1, keepdim=True)
    return mask.scatter(1, first, 1)


def question_globals(input_ids: Tensor, sep_token_id: int | None) -> Tensor:
    """[batch, length] int64: the question, all tokens before the first separator.

    Raises:
        ValueError: an example has no separator.
    """
    return (_places(input_ids) < _first_separator(input_ids, sep_token_id)).long()


def choice_globals(input_ids: Tensor, sep_token_id: int | None, pad_token_id: int | None) -> Tensor:
    """[batch, length] int64: the choice, all real tokens after the separators behind the context.

    Stock takes padding along, which its attention mask hides again.
    """
    after = _places(input_ids) > _first_separator(input_ids, sep_token_id) + 1
    return (after & (input_ids != pad_token_id)).long()


def _places(input_ids: Tensor) -> Tensor:
    return torch.arange(input_ids.shape[1], device=input_ids.device)


def _first_separator(input_ids: Tensor, sep_token_id: int | None) -> Tensor:
    """[batch, 1]."""
    if sep_token_id is None:
        raise ValueError("config.sep_token_id is None; set it, or give global_attention_mask")
    is_separator = input_ids == sep_token_id
    if not torch.compiler.is_compiling():
        without = (~is_separator.any(1)).nonzero().flatten().tolist()
        if without:
            raise ValueError(
                f"input_ids of example {without[0]} holds no separator (token {sep_token_id}), so its "
                "global tokens cannot be found; separate its two parts, or give global_attention_mask"
            )
    return is_separator.to(torch.uint8).argmax(1, keepdim=True)
