"""Files, compressed or not, one at a time or many."""

import logging
import lzma
from collections import Counter
from pathlib import Path

import pytest

from longspan.data.files import counted, open_file, open_files

from .writing import ENDINGS, write, write_tar


@pytest.mark.parametrize("ending", ENDINGS)
def test_lines_are_numbered_and_only_newlines_end_them(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"lines.txt{ending}", "\ufeffone\r\ntwo\u2028still two\x0b\n\nlast")
    with open_file(path) as file:
        assert list(file.lines()) == [(1, "one"), (2, "two\u2028still two\x0b"), (3, ""), (4, "last")]
    with open_file(path) as file:
        assert file.text().startswith("one\r\ntwo")


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tar.xz"])
def test_archives_and_folders_give_the_files_that_are_named(ending: str, tmp_path: Path) -> None:
    contents = {"b/two.txt": "second", "a/one.txt.xz": lzma.compress(b"first"), "README.md": "no"}
    archive = write_tar(tmp_path / f"all{ending}", contents)
    found = [(file.name, file.stem, file.text()) for file in open_files(archive, "*.txt")]
    assert found == [
        (f"{archive}/b/two.txt", "two", "second"),
        (f"{archive}/a/one.txt.xz", "one", "first"),
    ]
    folder = tmp_path / "folder"
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert [file.text() for file in open_files(folder, "*.txt")] == ["first", "second"]
    for empty in (archive, folder):
        with pytest.raises(ValueError, match=r"has no file named \*.conll"):
            list(open_files(empty, "*.conll"))


def test_bytes_that_are_not_utf_8_are_refused_by_line(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.txt", b"good\ncaf\xe9\n")
    with (
        open_file(path) as file,
        pytest.raises(ValueError, match=r"latin.txt, line 2: byte 3 begins .*UTF-8"),
    ):
        list(file.lines())


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_file_cut_short_is_named(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"cut.txt{ending}", "line\n" * 1000)
    path.write_bytes(path.read_bytes()[:-12])
    with open_file(path) as file, pytest.raises(ValueError, match=r"cut.txt.* cannot be decompressed"):
        list(file.lines())


@pytest.mark.parametrize("ending", [".tar", ".tar.xz"])
def test_an_archive_that_is_none_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"wrong{ending}"
    path.write_bytes(b"this is not an archive" * 100)
    with pytest.raises(ValueError, match=r"wrong.tar.* cannot be decompressed"):
        list(open_files(path))


def test_one_file_is_not_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be one file"), open_file(tmp_path):
        pass


def test_what_is_left_out_is_counted_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine: Counter[str] = Counter()
    with counted(tmp_path, mine) as drop:
        drop["rows"] += 2
    assert mine == {"rows": 2}
    with caplog.at_level(logging.WARNING), counted(tmp_path, None) as drop:
        drop["rows"] += 2
    with counted(tmp_path, None):
        pass
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}: left out 2 rows"]
