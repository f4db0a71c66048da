"""What a directory may not take the place of, and what is said where it cannot be made."""

import os
import re
from pathlib import Path

import pytest

from longspan.conversion.whole_directory import check_target, written_whole


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_the_directory_that_a_process_is_in_is_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="where this is run"):
        check_target(Path(name), overwrite=True)


def test_a_place_that_cannot_be_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match=f"cannot be made: {re.escape(str(tmp_path))}/file is a file"):
        check_target(tmp_path / "file" / "a" / "b")
    check_target(tmp_path / "a" / "b")
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may write anywhere
    with pytest.raises(ValueError, match="is read-only"):
        check_target(tmp_path / "a" / "b")


def test_an_error_names_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    out = tmp_path / "file" / "out"
    with pytest.raises(OSError) as failed, written_whole(out):
        pass
    assert failed.value.filename == str(out)
