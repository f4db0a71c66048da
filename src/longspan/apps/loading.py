"""The object that does what a model was trained for."""

from pathlib import Path

from longspan.apps.classifier import Classifier
from longspan.apps.reader import Reader
from longspan.apps.searcher import LATE_LAYERS, Searcher
from longspan.apps.sources import run_of
from longspan.apps.summarizer import Summarizer
from longspan.models.hub import class_of, model_fields
from longspan.training.run_folder import RunFolder

App = Classifier | Reader | Searcher | Summarizer
_TASKS = {
    "qa": Reader,
    "classification": Classifier,
    "extractive-summarization": Summarizer,
    "summarization": Summarizer,
}
_HEADS = {
    "ForQuestionAnswering": Reader,
    "ForSequenceClassification": Classifier,
    "ForConditionalGeneration": Summarizer,
}
_NAMES = {"reader": Reader, "searcher": Searcher, "summarizer": Summarizer}


def load(source: str | Path) -> App:
    """A model as the object for its task.

    Args:
        source: folder of a run, whose task decides; folder of a model, or a name on the Hub, whose head
            decides, or that it learned to find passages; or what a model of longspan's own is called, such as
            "reader".

    Raises:
        ValueError: there is no such model, or no object for what it does.
    """
    source = str(source)
    if source in _NAMES:
        return _NAMES[source]()
    run, _ = run_of(source)
    if run is not None:
        task = RunFolder(run).recipe().task
        if task not in _TASKS:
            raise ValueError(
                f"{source} is a run of the task {task}; there are objects for {', '.join(_TASKS)}"
            )
        return _TASKS[task](source)
    fields = model_fields(source)
    if LATE_LAYERS in (fields.get("longspan") or {}):
        return Searcher(source)
    head = class_of(fields)
    for ending, kind in _HEADS.items():
        if head.endswith(ending):
            return kind(source)
    raise ValueError(f"{source!r} is {head}; there are objects for models that end in {', '.join(_HEADS)}")
