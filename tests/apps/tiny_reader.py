"""A folder with a tiny model for question answering, for the tests of what readers are used for."""

from pathlib import Path

import torch

from longspan.models.longformer_config import LongformerConfig
from longspan.models.longformer_heads import LongformerForQuestionAnswering
from tests.tasks.tiny import tiny_longformer


def tiny_reader(folder: Path, *, seed: int = 0) -> Path:
    """Saves a Longformer with a head of random numbers, for `LONG_LENGTH` tokens; gives the folder."""
    tiny_longformer(folder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LongformerForQuestionAnswering(LongformerConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder
