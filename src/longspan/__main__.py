"""`python -m longspan`, which torchrun can start."""

from longspan.cli.main import main

if __name__ == "__main__":
    main()
