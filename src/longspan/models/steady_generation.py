"""`generate` whose new tokens cost the same however much came before: greedy search and sampling.

transformers' loop copies the whole text for every token, by joining the new one to it. Here the text stands
in a buffer with room behind it, and processors, criteria and the model get views: the same numbers, no
copies. All else is transformers'. What is not served (beams, no cache, attention probabilities, synchronised
GPUs) goes its way.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerationMixin

_LEAST_ROOM = 4096


class GrowingRows:
    """Rows that grow to the right by a column at a time, without being copied.

    Args:
        rows: [batch, length], what there is at first.
        room: columns that are going to be added, as far as one knows.
    """

    def __init__(self, rows: Tensor, room: int) -> None:
        self._length = rows.shape[1]
        self._buffer = _with_room(rows, min(room, max(_LEAST_ROOM, self._length)))

    @property
    def rows(self) -> Tensor:
        """[batch, length], a view; what it shows never changes."""
        return self._buffer[:, : self._length]

    def append(self, column: Tensor) -> None:
        """Adds [batch] values behind the others."""
        if self._length == self._buffer.shape[1]:
            # As much again: each column is copied once or twice in all.
            self._buffer = _with_room(self._buffer, max(_LEAST_ROOM, self._length))
        self._buffer[:, self._length] = column
        self._length += 1


class SteadyGeneration(GenerationMixin):
    """transformers' `generate`, with a loop of its own for greedy search and sampling."""

    @torch.no_grad()
    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        synced_gpus: bool = False,
        streamer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """Writes on after ``input_ids``, [batch, length]; arguments and results are transformers'."""
        stock: Any = super()
        if synced_gpus or generation_config.output_attentions or not model_kwargs.get("use_cache"):
            return stock._sample(
                input_ids,
                logits_processor,
                stopping_criteria,
                generation_config,
                synced_gpus=synced_gpus,
                streamer=streamer,
                **model_kwargs,
            )
        room = max(0, generation_config.max_length - input_ids.shape[1])
        text = GrowingRows(input_ids, room)
        mask = model_kwargs.get("attention_mask")
        seen = None if mask is None else GrowingRows(mask, room)
        has_end = any(hasattr(criterion, "eos_token_id") for criterion in stopping_criteria)
        goes_on = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
        record = _Record(generation_config)
        outputs: Any = stock._prefill(input_ids, generation_config, model_kwargs)
        while True:
            model_kwargs["past_key_values"] = outputs.past_key_values
            if seen is not None:
                seen.append(torch.ones_like(seen.rows[:, 0]))
                model_kwargs["attention_mask"] = seen.rows
            # A copy: of the prompt's logits only the last ones stay.
            logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=input_ids.device)
            scores: Tensor = logits_processor(text.rows, logits)
            record.add(scores, logits, outputs)
            del outputs
            if generation_config.do_sample:
                chosen = torch.multinomial(scores.softmax(-1), num_samples=1).squeeze(1)
            else:
                chosen = scores.argmax(-1)
            if has_end:  # what has ended is padded
                padding = generation_config._pad_token_tensor.to(input_ids.device)
                chosen = chosen * goes_on + padding * (1 - goes_on)
            text.append(chosen)
            goes_on = goes_on & ~stopping_criteria(text.rows, record.scores)
            if streamer is not None:
                streamer.put(chosen.cpu())
            if not goes_on.any():
                break
            inputs = stock.prepare_inputs_for_generation(text.rows, next_sequence_length=1, **model_kwargs)
            outputs = self(**inputs, return_dict=True)  # pyright: ignore[reportCallIssue]
        if streamer is not None:
            streamer.end()
        # Of its own: the buffer may be twice as large.
        written = text.rows.clone(memory_format=torch.contiguous_format)
        if not generation_config.return_dict_in_generate:
            return written
        return GenerateDecoderOnlyOutput(
            sequences=written,  # pyright: ignore[reportArgumentType]
            scores=record.scores,  # pyright: ignore[reportArgumentType]
            logits=record.logits,  # pyright: ignore[reportArgumentType]
            hidden_states=record.hidden_states,  # pyright: ignore[reportArgumentType]
            past_key_values=model_kwargs["past_key_values"],
        )


class _Record:
    """What a caller asked to be told of every step; None where it is not asked for, as in transformers."""

    def __init__(self, config: Any) -> None:
        asked = config.return_dict_in_generate
        self.scores: tuple[Tensor, ...] | None = () if asked and config.output_scores else None
        self.logits: tuple[Tensor, ...] | None = () if asked and config.output_logits else None
        self.hidden_states: tuple[Any, ...] | None = () if asked and config.output_hidden_states else None

    def add(self, scores: Tensor, logits: Tensor, outputs: Any) -> None:
        if self.scores is not None:
            self.scores += (scores,)
        if self.logits is not None:
            self.logits += (logits,)
        if self.hidden_states is not None:
            self.hidden_states += (outputs.hidden_states,)


def _with_room(rows: Tensor, room: int) -> Tensor:
    return torch.cat([rows, rows.new_empty(rows.shape[0], room)], 1)
