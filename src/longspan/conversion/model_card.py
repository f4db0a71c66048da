"""The README.md of a lengthened model: made from what, how, and how to load it."""

import re
from pathlib import Path

from transformers import PreTrainedModel

from longspan.models.led_base import LEDPreTrainedModel
from longspan.models.longformer import LongformerPreTrainedModel

_POSITIONS = {
    "copy": "the learned embeddings, repeated",
    "random": "the learned embeddings, then random ones (seed {seed})",
    "interpolate": "the learned embeddings, stretched",
}

_OURS = (LongformerPreTrainedModel, LEDPreTrainedModel)

_CARD = """\
---
{front}---

# {title}

A `{kind}` that reads up to {max_length} tokens, made from {source} by longspan {version}.
Its weights are the source's: it was not trained after that.

| | |
|---|---|
| source | {source} |
| architecture | `{kind}` |
| parameters | {parameters:,} |
| longest input | {max_length} tokens |
| window | {window} tokens |
| positions | {positions} |
| global tokens | {global_tokens} |
| licence of the source | {licence} |

## Load it

```python
{loading}
```

## Train it

{promise}
On longer ones it meets positions and windows that it has never seen: pretrain it further on long
documents, then fine-tune it.
"""


def model_card(model: PreTrainedModel, *, title: str, licence: str | None) -> str:
    """The text of the card.

    Args:
        model: made by `lengthen`.
        title: the name of the new model.
        licence: of the source, where it is known.
    """
    made = model.config.longspan
    front = f"license: {licence}\n" if licence else ""
    source_class = f"`{made['source_class']}`"
    return _CARD.format(
        front=f"{front}tags:\n- longspan\n- long-documents\n",
        title=title,
        kind=type(model).__name__,
        source=f"`{made['source']}` ({source_class})" if made["source"] else f"a {source_class}",
        version=made["version"],
        max_length=made["max_length"],
        window=made["window"],
        parameters=model.num_parameters(),
        positions=_POSITIONS[made["positions"]].format(seed=made["seed"]),
        global_tokens=(
            "have projections of their own, which began as copies of the local ones"
            if isinstance(model, _OURS)
            else "share the projections of all others"
        ),
        licence=licence or "not named in its README",
        loading=_loading(model, title),
        promise=(
            f"On inputs of up to {made['window'] // 2 + 1} tokens, each of which sees all others, "
            "it computes what the source computes."
            if made["positions"] != "interpolate"
            else "Its positions are not the source's, so it differs from it on short inputs too."
        ),
    )


def licence_of(source: Path) -> str | None:
    """The licence that the front matter of a folder's README.md names."""
    readme = source / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    front = re.match(r"---\s*\n(.*?)^---", text, flags=re.DOTALL | re.MULTILINE)
    pattern = r"^license:[ \t]*(?:\n[ \t]*-[ \t]*)?[\"']?([\w.+-]+)"
    named = re.search(pattern, front[1], flags=re.MULTILINE) if front else None
    return named[1] if named else None


def _loading(model: PreTrainedModel, title: str) -> str:
    kind = type(model).__name__
    # A pooler that was not saved would come back with random weights.
    lacks_pooler = model.base_model is model and getattr(model, "pooler", True) is None
    arguments = f'"{title}"' + (", add_pooling_layer=False" if lacks_pooler else "")
    if not isinstance(model, _OURS):
        return (
            "from longspan.conversion.in_place import load_in_place\n\n"
            f"model = load_in_place({arguments})  # a {kind}"
        )
    stock = "  # that of transformers loads it too" if model.config.is_stock else ""
    return f"from longspan import {kind}\n\nmodel = {kind}.from_pretrained({arguments}){stock}"
