"""Ctrl-C at every moment of what must not be cut in two."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from longspan.conversion import whole_directory
from longspan.conversion.interrupts import uninterrupted
from longspan.conversion.whole_directory import written_whole
from longspan.training import run_folder


@pytest.fixture(autouse=True)
def hears() -> Any:
    """Tests may run where Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_waits_for_the_end_of_the_block() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            press()
            done.append("inside")
        done.append("outside")
    assert done == ["inside", "outside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_the_block_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt) as stopped, uninterrupted():
        press()
        raise OSError("full")
    assert isinstance(stopped.value.__context__, OSError)


def test_another_thread_leaves_signals_alone() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with uninterrupted():
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed


def interrupted_at(moment: int, file: str, work: Callable[[], None]) -> bool:
    """Does ``work`` with Ctrl-C at the ``moment``-th line of ``file``; False where there are not so many."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            lines += 1
            if lines == moment:
                press()
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines >= moment


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_whole_wherever_ctrl_c_comes(there: bool, tmp_path: Path) -> None:
    moment, seen = 0, set[str]()
    is_reached = True
    while is_reached:
        moment += 1
        place = tmp_path / str(moment)
        out = place / "out"
        place.mkdir()
        if there:
            out.mkdir()
            (out / "a").write_text("old")
            (out / "b").write_text("old")

        def write(out: Path = out) -> None:
            with written_whole(out) as new:
                (new / "a").write_text("new")
                (new / "b").write_text("new")

        is_reached = interrupted_at(moment, whole_directory.__file__, write)
        assert {one.name for one in place.iterdir()} <= {"out"}
        found = {(out / name).read_text() for name in ("a", "b")} if out.exists() else {"nothing"}
        assert len(found) == 1
        seen |= found
    assert moment > 8
    assert seen == {"old" if there else "nothing", "new"}


def test_a_file_is_whole_wherever_ctrl_c_comes(tmp_path: Path) -> None:
    moment, is_reached = 0, True
    while is_reached:
        moment += 1
        path = tmp_path / str(moment) / "file"
        path.parent.mkdir()
        is_reached = interrupted_at(
            moment, run_folder.__file__, lambda path=path: run_folder.write_whole(path, "new")
        )
        assert [one.name for one in path.parent.iterdir()] in ([], ["file"])
        assert not path.exists() or path.read_text() == "new"
    assert moment > 4
