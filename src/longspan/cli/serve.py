"""`longspan serve`: a page in which documents are asked."""

import sys
from pathlib import Path

from longspan.cli.errors import UsageError, require, user_mistakes
from longspan.cli.options import at_least_one

EXAMPLES = """\
  longspan serve
  longspan serve --model runs/reader --port 8080"""


def serve(
    *,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_upload_mb: int = 25,
    max_tokens: int = 500_000,
) -> None:
    """Start a page on this machine: add documents, ask, see the answers in the text.

    Args:
        model: folder of a run of the task qa, of a model, or a name on the Hub; by default longspan's own.
        host: address to listen at. Others than this machine's own are reached by anybody in the network: the
            page has no passwords.
        port: of the address; 0 takes a free one.
        max_upload_mb: the largest file that is taken, in MB.
        max_tokens: the most tokens that a question is asked of, all documents together.
    """
    for package in ("fastapi", "uvicorn"):
        require(package, extra="web")
    from longspan.apps.reader import Reader
    from longspan.cli.demo import QUESTIONS
    from longspan.cli.models import quiet_transformers
    from longspan.embedded import BOOK
    from longspan.web.app import create_app
    from longspan.web.guard import is_loopback
    from longspan.web.samples import Sample
    from longspan.web.serving import address_of, bound_socket, server_of
    from longspan.web.settings import ServeSettings

    quiet_transformers()
    with user_mistakes():
        if not host:
            raise ValueError("--host is empty; it must be an address, such as 127.0.0.1")
        at_least_one(max_upload_mb=max_upload_mb, max_tokens=max_tokens)
        settings = ServeSettings(max_upload_bytes=max_upload_mb * 2**20, max_tokens=max_tokens)
        listener = bound_socket(host, port)
    with listener:
        with user_mistakes():
            reader = Reader(model)
        samples = (
            [Sample(title="The Call of the Wild", path=BOOK, questions=QUESTIONS)] if BOOK.exists() else []
        )
        shown = "longspan's reader" if model is None else Path(model).name
        app = create_app(reader, settings, host=host, model=shown, samples=samples)
        if not is_loopback(host):
            warning = "anybody who reaches this address can use the page; it has no passwords"
            print(f"longspan: {warning}", file=sys.stderr)
        print(f"The page is at {address_of(listener, host)} (Ctrl-C ends it)", flush=True)
        server = server_of(app)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            print()
        if not server.started:
            raise UsageError("the server could not be started")
