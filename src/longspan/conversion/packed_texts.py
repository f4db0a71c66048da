"""Many short texts as one long input of an encoder-decoder: a chapter, paragraph after paragraph.

A model that was trained on sentences and is made long has a window and positions for a chapter, but has never
seen a place beyond a few hundred: read as one text, a chapter of thousands of tokens makes it stammer until
it is trained on such. Here the paragraphs stand one after the other in one input; each sees itself alone and
counts its positions from its own beginning, so that what is written about each is what the short model would
write. The encoder computes the tokens that there are, and no padding.

For models that were lengthened in place (Marian, Pegasus, BART, mBART, T5). A paragraph longer than half of
the window sees less of itself than the short model did.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from longspan.conversion.architectures import architecture_of
from longspan.conversion.in_place import has_window


def encode_packed(model: PreTrainedModel, texts: Sequence[Tensor]) -> list[Tensor]:
    """Encodes texts as one input.

    Args:
        model: an encoder-decoder that was lengthened in place.
        texts: the tokens of each, [length], not empty; all together as many as the model reads.

    Returns:
        The encoder's states of each text, [length, d_model].

    Raises:
        ValueError: the model is another one, or a text or all together have a wrong length.
    """
    _check(model, texts)
    lengths = torch.tensor([len(text) for text in texts])
    starts = F.pad(lengths.cumsum(0), (1, 0))
    ids = torch.cat([*texts]).to(model.device)[None]
    restarted = torch.cat([torch.arange(len(text)) for text in texts]).to(model.device)
    encoder: Any = model.get_encoder()
    with _positions(encoder, architecture_of(model.config).table, restarted):
        encoded = encoder(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            document_starts=starts.to(model.device),
            return_dict=True,
        )
    return list(encoded.last_hidden_state[0].split(lengths.tolist()))


def generate_packed(
    model: PreTrainedModel, texts: Sequence[Tensor], *, batch: int = 8, **settings: Any
) -> list[Tensor]:
    """Reads texts as one input and writes about one after the other: translates a chapter, say.

    Args:
        model: an encoder-decoder that was lengthened in place.
        texts: the tokens of each, [length].
        batch: how many are written at a time; those of like lengths come together.
        **settings: of transformers' ``generate``.

    Returns:
        What was written about each, [length], with special tokens and padding as ``generate`` has them.
    """
    encoded = encode_packed(model, texts)
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    written: dict[int, Tensor] = {}
    for begin in range(0, len(order), batch):
        some = order[begin : begin + batch]
        states = pad_sequence([encoded[at] for at in some], batch_first=True)
        lengths = torch.tensor([len(texts[at]) for at in some], device=model.device)
        mask = torch.arange(states.shape[1], device=model.device)[None] < lengths[:, None]
        rows = cast(Any, model).generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=cast(Any, states)),
            attention_mask=mask.long(),
            **settings,
        )
        written.update(zip(some, rows, strict=True))
    return [written[at] for at in range(len(texts))]


@contextmanager
def _positions(encoder: nn.Module, table: str, positions: Tensor) -> Generator[None]:
    """Gives every token the row of its own place, where a model has a table of positions.

    Args:
        encoder: of the model.
        table: the name of the module with the rows; empty where there is none.
        positions: [length].
    """
    if not table:
        yield
        return

    def rows(module: nn.Module, _: tuple[Any, ...], __: Tensor) -> Tensor:
        embedding = cast(nn.Embedding, module)
        return F.embedding(positions + int(getattr(module, "offset", 0)), embedding.weight)[None]

    handle = cast(nn.Module, getattr(encoder, table)).register_forward_hook(rows)
    try:
        yield
    finally:
        handle.remove()


def _check(model: PreTrainedModel, texts: Sequence[Tensor]) -> None:
    if not (has_window(model) and model.config.is_encoder_decoder):
        raise ValueError(
            f"model is a {type(model).__name__}, which was not lengthened in place or has no decoder; "
            "use longspan.lengthen(model, into='same') on BART, mBART, Marian, Pegasus or T5"
        )
    if not texts or not all(len(text) for text in texts):
        raise ValueError("texts is empty, or has an empty text; each must have at least one token")
    most: int | None = getattr(model.config, "max_position_embeddings", None)
    total = sum(len(text) for text in texts)
    if most is not None and total > most:
        raise ValueError(f"texts have {total} tokens together; {type(model).__name__} reads at most {most}")
