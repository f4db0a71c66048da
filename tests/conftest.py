"""Fixtures of tests in several folders."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import settings

# A machine that is busy stalls any example.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@contextmanager
def _loudness_kept() -> Generator[None]:
    """Transformers as loud afterwards as it was, and what a command set aside collected again."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    yield
    gc.unfreeze()
    logging.set_verbosity(verbosity)
    logging.enable_progress_bar()


@pytest.fixture(scope="module")
def quiet_transformers() -> Generator[None]:
    """Neither warnings nor progress bars of transformers."""
    from transformers.utils import logging

    with _loudness_kept():
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        yield


@pytest.fixture
def loudness() -> Generator[None]:
    """For commands in this process: they make transformers quiet, which other tests would inherit."""
    with _loudness_kept():
        yield
