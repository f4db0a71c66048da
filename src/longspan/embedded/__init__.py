"""What comes with the package: models, and a book.

A model is a folder of a run, or of a model, with compact weights and a card.
`recipes/embed.py` makes such a folder of a run; `recipes/search_model.py` trains and writes the searcher.
"""

from pathlib import Path

BOOK = Path(__file__).parent / "book" / "the_call_of_the_wild.txt"
"""To try a reader on."""
READER = Path(__file__).parent / "reader"
"""Answers questions about documents of any length."""
SEARCHER = Path(__file__).parent / "searcher"
"""Finds passages of documents of any length."""
SUMMARIZER = Path(__file__).parent / "summarizer"
"""Chooses sentences of documents of any length."""
