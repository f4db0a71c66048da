"""How the property tests of the scores run."""

from hypothesis import settings


def examples(count: int) -> settings:
    """The same ``count`` examples in every run."""
    return settings(max_examples=count, derandomize=True, database=None)
