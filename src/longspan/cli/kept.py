"""Where commands keep what they read of documents, so that the next question is quick."""

import os
import sys
from collections.abc import Callable
from pathlib import Path


def place_of_index(named: Path | None, usual: Callable[[], Path]) -> Path | None:
    """The file to keep things in; None, and a line on stderr, where there can be none.

    Keeping is a convenience: who has no folder of their own, as in many containers, gets answers all the
    same. A file that was named is another thing: whatever is wrong with it is an error of who opens it.

    Args:
        named: by the user.
        usual: gives the place that is taken otherwise.
    """
    if named is not None:
        return named
    try:
        place = usual()
        place.parent.mkdir(parents=True, exist_ok=True)
        for one in (place.parent, place):
            if one.exists() and not os.access(one, os.W_OK):
                raise PermissionError(None, "it is read-only", str(one))
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(
            f"longspan: nothing is kept for the next time ({why}); --index names another file",
            file=sys.stderr,
        )
        return None
    return place
