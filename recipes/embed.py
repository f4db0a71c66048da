"""A run as a model that comes with the package: compact weights, and nothing of the machine that trained it.

python recipes/embed.py --run runs/summaries-extract-4096-0 --out src/longspan/embedded/summarizer

The folder's own README.md, which says what the model is and how good, is written by hand and stays.
"""

import argparse
import tempfile
from pathlib import Path

import yaml

from longspan.conversion.compact import compact

CARD = "README.md"


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="folder of a run")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; what is there is replaced")
    where = parser.parse_args()
    card = where.out / CARD
    said = card.read_bytes() if card.is_file() else None
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        run.mkdir()
        (run / "best").symlink_to((where.run / "best").resolve())
        recipe = yaml.safe_load((where.run / "config.yaml").read_text(encoding="utf-8"))
        source = Path(recipe["model"]["source"])
        of_run = source.name in ("best", "last")
        known = Path("runs", *source.parts[-2:]) if of_run else Path("models", source.name)
        recipe["model"]["source"] = str(known)
        recipe["data"] |= {"root": f"runs/{Path(recipe['data']['root']).name}", "cache": None}
        (run / "config.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
        made = compact(run, where.out, overwrite=True)
    if said is not None:
        card.write_bytes(said)
    print(f"{where.out}: {made.bytes_after / 1e6:.1f} MB of {made.bytes_before / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
