"""`longspan summarize`: documents of any length, in one command."""

import sys

from longspan.cli.documents import Files, read_documents
from longspan.cli.errors import user_mistakes
from longspan.cli.options import AsJson, at_least_one
from longspan.cli.output import print_json, say
from longspan.cli.progress import bar

EXAMPLES = """\
  longspan summarize report.pdf --words 150
  longspan summarize page.html notes.md --query "What did it cost?" --json
  longspan summarize story.txt --model allenai/led-base-16384 --beams 2 --max-tokens 200
  longspan summarize --model runs/extract < report.txt"""


def summarize(
    *files: Files,
    model: str | None = None,
    query: str = "",
    words: int | None = None,
    sentences: int | None = None,
    beams: int | None = None,
    max_tokens: int | None = None,
    as_json: AsJson = False,
) -> None:
    """Summarise documents: text, Markdown, HTML, Word, EPUB or PDF.

    The model chooses sentences (task extractive-summarization) or writes (an LED, BART, T5 ...). The one that
    comes with longspan chooses.

    Args:
        files: documents, or folders of them; none, or -, reads standard input.
        model: folder of a run or of a model, or a name on the Hub; by default the one of longspan.
        query: what the summary is to say; by default it is one of the whole.
        words: about how long, where sentences are chosen.
        sentences: the most sentences, where they are chosen.
        beams: summaries that are written beside each other, where the model writes; the best counts.
        max_tokens: the most tokens that are written.
        as_json: print a JSON object a document.
    """
    with user_mistakes():
        at_least_one(words=words, sentences=sentences, beams=beams, max_tokens=max_tokens)
    documents = read_documents(files)
    from longspan.cli.models import starting

    with starting():
        from longspan.apps.summarizer import Summarizer

        with user_mistakes():
            limits = {"words": words, "sentences": sentences, "beams": beams, "max_tokens": max_tokens}
            summarizer = Summarizer(model, **limits)
    for document in documents:
        with user_mistakes(), bar(f"reading {document.id}") as progress:
            summary = summarizer(document, query, progress=progress)
        if summary.tokens_read < summary.tokens:
            read = f"{summary.tokens_read:,} of {summary.tokens:,} tokens"
            print(f"longspan: {document.id}: the model read the first {read}", file=sys.stderr)
        if as_json:
            print_json(summary)
        else:
            say(f"{document.id}\n\n{summary.text}\n" if len(documents) > 1 else summary.text)
