"""The README.md of a trained model: the task, made from what, learned from what, and its scores."""

from collections.abc import Mapping
from pathlib import PurePath

from torch import nn

import longspan
from longspan.training.recipe import Recipe

_CARD = """\
---
tags:
- longspan
- long-documents
- {task}
---

# {title}

Trained by longspan {version} for the task `{task}`.

| | |
|---|---|
| made from | `{source}` |
| longest input | {max_length} tokens |
| parameters | {parameters:,} |
| learned from | `{train}` ({format}) |
| scored on | `{dev}` |
| seed | {seed} |

## Scores

{scores}

## Use it

```sh
longspan predict RUN --data documents.jsonl --out predictions.jsonl
```

where RUN is the folder of the run that this folder is in.
"""


def run_card(recipe: Recipe, model: nn.Module, scores: Mapping[str, float]) -> str:
    """The text of the card.

    Args:
        recipe: of the run.
        model: that was trained.
        scores: on the dev data; empty where there are none.
    """
    rows = [f"| {name} | {value:.4f} |" for name, value in scores.items()]
    where = PurePath(recipe.model.source)
    # A model of a run is called as the run is.
    source = where.parent.name if where.name in ("best", "last") else where.name
    return _CARD.format(
        task=recipe.task,
        title=f"{source} for {recipe.task}",
        version=longspan.__version__,
        source=source,
        max_length=recipe.settings.max_length,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        train=PurePath(recipe.data.train).name,
        format=recipe.data.format,
        dev=PurePath(recipe.data.dev).name if recipe.data.dev else "nothing",
        seed=recipe.run.seed,
        scores="\n".join(["| | |", "|---|---|", *rows]) if rows else "It was not scored.",
    )
