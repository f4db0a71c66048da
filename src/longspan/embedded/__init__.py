"""Models that come with the package: each a folder of a run with compact weights, and a card.

`recipes/embed.py` makes such a folder of a run.
"""

from pathlib import Path

SUMMARIZER = Path(__file__).parent / "summarizer"
"""Chooses sentences of documents of any length."""
