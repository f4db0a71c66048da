"""`longspan completion`: what lets a shell complete our commands and options."""

from typing import Literal

EXAMPLES = """\
  source <(longspan completion bash)              # in ~/.bashrc
  longspan completion zsh > ~/.zfunc/_longspan    # with ~/.zfunc in fpath, before compinit
  longspan completion fish > ~/.config/fish/completions/longspan.fish"""


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script that completes commands, options and their values.

    Args:
        shell: the one that is to run it.
    """
    from longspan.cli.main import app

    print(app.generate_completion(shell=shell), end="")
