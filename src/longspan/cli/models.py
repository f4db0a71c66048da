"""What commands that load a model do alike."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def starting() -> Generator[None]:
    """To import in what loads a model, and to load it: that takes as long as a short question.

    Python would look again and again for what may be thrown away, which costs a quarter of the time, and once
    more when the process ends, which costs another: what is made here stays, and is not looked at again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        quiet_transformers()
        yield
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def quiet_transformers() -> None:
    """Silences what transformers says about new and unused weights: it is checked, or does not matter."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def model_folder(model: str) -> str:
    """The folder of the model, where ``model`` is that of a run; anything else as it is.

    Raises:
        ValueError: it is a folder without a model.
    """
    path = Path(model)
    if not model or not path.is_dir() or (path / "config.json").exists():
        return model
    for name in ("best", "last"):
        if (path / name / "config.json").exists():
            return str(path / name)
    raise ValueError(f"MODEL is {model}, which has no model; it must be a folder of a model or of a run")
