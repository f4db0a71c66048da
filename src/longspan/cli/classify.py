"""`longspan classify`: what a document is, of the classes that a model knows."""

from longspan.cli.documents import Files, read_documents
from longspan.cli.errors import user_mistakes
from longspan.cli.options import AsJson
from longspan.cli.output import print_json, say
from longspan.cli.progress import bar

EXAMPLES = """\
  longspan classify review.txt --model runs/imdb
  longspan classify letters/ report.pdf --model runs/first --json
  longspan classify --model runs/first < review.txt"""


def classify(*files: Files, model: str, as_json: AsJson = False) -> None:
    """Tell which class documents belong to.

    All of a document is read, however long it is; what does not fit into one input of the model is read in
    several, whose probabilities are averaged.

    Args:
        files: documents, or folders of them; none, or -, reads standard input.
        model: folder of a run of the task classification, or of a model with a head for classes, or a name on
            the Hub.
        as_json: print a JSON object a document, with the probabilities of all classes.
    """
    documents = read_documents(files)
    from longspan.cli.models import starting

    with starting():
        from longspan.apps.classifier import Classifier

        with user_mistakes():
            classifier = Classifier(model)
    for document in documents:
        with bar(f"reading {document.id}") as progress:
            found = classifier(document, progress=progress)
        if as_json:
            print_json(found)
            continue
        sure = f"{found.label}  {found.probabilities[found.label]:.1%}"
        say(f"{document.id}  {sure}" if len(documents) > 1 else sure)
