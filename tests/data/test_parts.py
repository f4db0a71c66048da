"""Parts of data sets: official where there are some, else seeded, and never overlapping."""

import json
from pathlib import Path

import pytest

from longspan.data.parts import read_part


def _reviews(path: Path, count: int) -> Path:
    lines = (json.dumps({"id": at, "text": f"text {at}", "label": "ab"[at % 2]}) for at in range(count))
    path.write_text("\n".join(lines))
    return path


def _ids(where: str, root: Path, seed: int = 0) -> list[str]:
    return [example.id for example in read_part(where, "classification", root=root, seed=seed)]


def test_parts_are_disjoint_and_complete(tmp_path: Path) -> None:
    _reviews(tmp_path / "reviews.jsonl", 50)
    parts = [_ids(f"reviews.jsonl#{part}", tmp_path) for part in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [40, 5, 5]
    assert sorted(sum(parts, [])) == sorted(_ids("reviews.jsonl", tmp_path))
    assert _ids("reviews.jsonl#dev", tmp_path, seed=1) != parts[1]


def test_official_parts_are_taken(tmp_path: Path) -> None:
    records = [
        {"split": split, "id": at, "rating": 9, "label": 1, "text": f"{split} {at}"}
        for split in ("train", "test")
        for at in range(3)
    ]
    (tmp_path / "imdb.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = list(read_part("imdb.jsonl#test", "imdb", root=tmp_path))
    assert [example.id.split("/")[0] for example in found] == ["test"] * 3
    with pytest.raises(ValueError, match="the part is 'dev'; it must be one of train, test"):
        read_part("imdb.jsonl#dev", "imdb", root=tmp_path)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none.jsonl does not exist"):
        read_part("none.jsonl#train", "classification", root=tmp_path)
