"""Commands as documents and helps show them."""

import shlex


def arguments_of(command: str) -> list[str]:
    """The words after `longspan` in a line for a shell; without what goes to files and comes from them."""
    words = shlex.split(command.split(" #")[0])
    for at, word in enumerate(words):
        if word in ("<", ">", "|"):
            words = words[:at]
            break
    # What is beside the command in an example of the shell's own, and in its comment.
    at = next(at for at, word in enumerate(words) if word.endswith("longspan"))
    return [word.rstrip(")") for word in words[at + 1 :]]
