"""`longspan generate`: a language model goes on with a text, and shows it as it comes."""

import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from longspan.cli.errors import UsageError, user_mistakes
from longspan.cli.models import model_folder, quiet_transformers
from longspan.cli.options import AsJson, at_least_one, check_seed

if TYPE_CHECKING:
    from torch import Tensor
    from transformers.generation.streamers import BaseStreamer


EXAMPLES = """\
  longspan generate runs/char-lm --prompt "It was a long way"
  longspan generate runs/char-lm --prompt-file story.txt --max-tokens 500 --temperature 0.8 --top-p 0.95
  longspan generate openai-community/gpt2 --prompt "Once" --temperature 0 --json"""

_COLDEST = 1e-4
"""The lowest temperature but 0."""
_WRITE = (
    "ForCausalLM",
    "LMHeadModel",
    "ModelWithLMHead",
    "GenerationDecoder",
    "ForConditionalGeneration",  # reads images or sounds too
)
"""How the classes of models end that go on with a text."""


def generate(
    model: str,
    *,
    prompt: str | None = None,
    prompt_file: Path | None = None,
    max_tokens: Annotated[int, Parameter(name=("--max-tokens", "--max-new-tokens"))] = 256,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Let a language model write on, token by token.

    What comes after the prompt is printed. Prompts may be far longer than the model's windows.

    Args:
        model: folder of a model or of a run, or a name on the Hub.
        prompt: what the text begins with; a new line by default.
        prompt_file: a file with the prompt.
        max_tokens: how many tokens to write: bytes, for a model of bytes.
        temperature: below 1 the probable becomes more so; 0 always takes the most probable token.
        top_k: choose among so many tokens, the most probable ones.
        top_p: choose among the most probable tokens that have this probability together.
        seed: another one gives another text.
        as_json: print one JSON object when the text is complete.
    """
    with user_mistakes():
        given = _prompt(prompt, prompt_file)
        settings = _settings(max_tokens, temperature, top_k, top_p)
        check_seed(seed)
        folder = model_folder(model)
    import torch

    quiet_transformers()
    with user_mistakes():
        try:
            loaded, tokenizer = _load(folder)
        except OSError as error:
            raise UsageError(f"MODEL is {model}: {' '.join(str(error).split())}") from error
        ids = _ids(given, tokenizer, prompt_file)
    torch.manual_seed(seed)
    streamer = None if as_json else _streamer(tokenizer)
    written = loaded.generate(ids, attention_mask=torch.ones_like(ids), streamer=streamer, **settings)
    if as_json:
        import json

        new = written[0, ids.shape[1] :]
        said: dict[str, Any] = {"text": tokenizer.decode(new, skip_special_tokens=True)}
        said |= {"tokens": len(new), "prompt_tokens": ids.shape[1]}
        print(json.dumps(said, ensure_ascii=False))
    else:
        print()


def _prompt(prompt: str | None, file: Path | None) -> bytes:
    """The prompt as bytes: a file of any encoding may be one, for a model of bytes."""
    if prompt is not None and file is not None:
        raise ValueError("--prompt and --prompt-file are both given; give one of them")
    if file is not None:
        try:
            given = file.read_bytes()
        except OSError as error:
            raise ValueError(f"--prompt-file is {file}, which cannot be read: {error.strerror}") from error
    else:
        given = b"\n" if prompt is None else prompt.encode(errors="surrogateescape")
    if not given:
        raise ValueError("the prompt is empty; it must have at least one character")
    return given


def _ids(prompt: bytes, tokenizer: Any, file: Path | None) -> "Tensor":
    """[1, tokens] int64: bytes as they are, for a model of bytes."""
    import torch

    from longspan.models.byte_tokenizer import is_byte_tokenizer

    if is_byte_tokenizer(tokenizer):
        return torch.frombuffer(bytearray(prompt), dtype=torch.uint8)[None].long()
    try:
        text = prompt.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--prompt-file is {file}, whose byte {error.start} is not UTF-8; a model with a tokenizer reads "
            "text: it must be UTF-8"
        ) from error
    return tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]


def _settings(max_tokens: int, temperature: float, top_k: int | None, top_p: float | None) -> dict[str, Any]:
    """The arguments of transformers' `generate`."""
    at_least_one(max_tokens=max_tokens, top_k=top_k)
    # Scores are divided by it: by less than that they would be no numbers. NaN is neither.
    if temperature != 0 and not _COLDEST <= temperature < inf:
        raise ValueError(f"--temperature is {temperature}; it must be 0, or a number of at least {_COLDEST}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"--top-p is {top_p}; it must be above 0 and at most 1")
    if temperature == 0:
        return {"max_new_tokens": max_tokens, "do_sample": False}
    # transformers takes the 50 most probable tokens by default; 0 is all of them.
    chosen = {"temperature": temperature, "top_k": top_k or 0, "top_p": top_p or 1.0}
    return {"max_new_tokens": max_tokens, "do_sample": True, **chosen}


def _load(folder: str) -> tuple[Any, Any]:
    """The model and its tokenizer; bytes, where a model of bytes has none.

    Raises:
        ValueError: there is no model, or it does not write: transformers would let any model write, with
            a head of random numbers or one that saw what comes after, and print noise.
    """
    from transformers import AutoModelForCausalLM

    from longspan.conversion.loading import load_tokenizer
    from longspan.models.auto import register_auto_classes
    from longspan.models.byte_tokenizer import byte_tokenizer
    from longspan.models.causal_lm_config import BYTES
    from longspan.models.compact_loading import load_pretrained
    from longspan.models.hub import class_of, model_fields

    register_auto_classes()
    fields = model_fields(folder, named="MODEL is")
    kind = class_of(fields)
    if not kind.endswith(_WRITE) or fields.get("is_encoder_decoder"):
        raise ValueError(
            f"MODEL is {folder!r}, {kind}; it must be a language model, which goes on with a text: one whose "
            f"class ends in {_WRITE[0]}"
        )
    model: Any = load_pretrained(AutoModelForCausalLM, folder)
    tokenizer = load_tokenizer(folder)
    if tokenizer is None and model.config.vocab_size != BYTES:
        raise ValueError(
            f"MODEL is {folder!r}, which has no tokenizer, and its vocabulary of {model.config.vocab_size} "
            "is not bytes"
        )
    return model.eval(), byte_tokenizer() if tokenizer is None else tokenizer


def _streamer(tokenizer: Any) -> "BaseStreamer":
    from transformers import TextStreamer

    from longspan.models.byte_tokenizer import ByteStreamer, is_byte_tokenizer

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    if is_byte_tokenizer(tokenizer):
        return ByteStreamer(write)
    return TextStreamer(tokenizer, skip_prompt=True)
