"""The program `longspan`, also as `python -m longspan`, which torchrun can start."""

import os
import sys


def main() -> None:
    """Runs the command of this process; Ctrl-C ends it quietly from its first moment on."""
    try:
        from longspan.cli.main import main

        main()
    except KeyboardInterrupt:
        print("longspan: interrupted", file=sys.stderr)
        sys.exit(130)


def _leave(code: int) -> None:
    """Ends the process at once.

    Threads with which processes talked may outlive the talk, for torch keeps what it knows of them in caches.
    One that is left when Python takes itself apart can abort a process that has done all its work.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if "WORLD_SIZE" not in os.environ:
        main()
    else:
        try:
            main()
        except SystemExit as end:
            _leave(end.code if isinstance(end.code, int) else int(end.code is not None))
        _leave(0)
