"""The commands as a user runs them: real processes, small sizes."""

import csv
import json
import struct
from pathlib import Path

import pytest

from tests.cli.running import longspan

TINY = ["--heads", "1", "--head-dim", "8", "--window", "16", "--repetitions", "1", "--threads", "1"]


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_doctor_is_plain_text(tmp_path: Path) -> None:
    done = longspan("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    fields = {line.split("  ")[0] for line in done.stdout.splitlines()}
    assert {"longspan", "python", "torch", "platform", "cpu", "native kernel", "FlexAttention"} <= fields
    assert done.stdout.isascii()


def test_version(tmp_path: Path) -> None:
    assert longspan("--version", cwd=tmp_path).stdout.strip().count(".") == 2


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["bnech"], "bench"),
        (["bench", "attention", "--lenghts", "64"], "--lengths"),
        (["bench", "attention", "--only", "flash"], "sdpa-full"),
        (["bench", "attention", "--window", "7"], "even"),
        (["bench", "attention", "--lengths", "0"], "at least 1"),
        (["bench", "attention", "--max-seconds", "0"], "above 0"),
        (["bench", "kernel", "--only", "speed"], "dropout"),
        (["bench", "kernel", "--threads", "0"], "1 to 1024"),
        (["bench", "training", "--product-size", "0"], "--product-size is 0"),
        (["bench", "model", "--only", "speed"], "long-document"),
        (["bench", "model", "--repetitions", "0"], "at least 1"),
        (["bench", "model", "--hidden-size", "100"], "multiple of heads"),
        (["plot", "pattern", "--left", "-1"], ">= 0"),
        (["plot", "pattern", "--left", "2", "--globals", "40"], "31"),
        (["plot", "pattern", "--out", "pattern.gif"], ".png"),
        (["plot", "pattern", "--layers", "3"], "--left"),
        (["plot", "pattern", "--left", "2", "--length", "100000"], "256"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistake_is_one_line_and_exit_code_2(arguments: list[str], hint: str, tmp_path: Path) -> None:
    done = longspan(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("longspan: ")
    assert hint in done.stderr
    assert not list(tmp_path.iterdir())


def test_plot_draws_the_papers_figure(tmp_path: Path) -> None:
    done = longspan("plot", "pattern", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    width, height = png_size(tmp_path / "pattern.png")
    assert width > 2 * height
    assert done.stdout == "Picture: pattern.png\n"


def test_plot_draws_one_pattern_the_same_each_time(tmp_path: Path) -> None:
    wanted = ["plot", "pattern", "--left", "2", "--dilation", "2", "--globals", "0", "5", "--layers", "3"]
    pictures: list[bytes] = []
    for name in ("a.svg", "b.svg"):
        done = longspan(*wanted, "--length", "16", "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        pictures.append((tmp_path / name).read_bytes())
    assert b"token 8" in pictures[0]
    assert pictures[0] == pictures[1]


def test_bench_attention_writes_its_files(tmp_path: Path) -> None:
    lengths = ["--lengths", "128", "64"]
    who = ["--only", "hf", "sdpa-full", "loop"]
    done = longspan("bench", "attention", *lengths, *who, *TINY, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "naive loop over offsets" in done.stdout
    assert done.stdout.splitlines()[-1] == "Results: out/attention.json, picture: out/attention-forward.png"
    names = {"attention.json", "attention.csv"}
    names |= {f"attention-{way}.{kind}" for way in ("forward", "training") for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    report = json.loads((tmp_path / "out/attention.json").read_text())
    assert report["machine"]["threads"] == 1
    found = {(r["contestant"], r["direction"], r["length"]) for r in report["records"] if r["seconds"] > 0}
    assert len(found) == 3 * 2 * 2
    with (tmp_path / "out/attention.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12


def test_bench_kernel_writes_its_bars(tmp_path: Path) -> None:
    options = ["--impl", "reference", "--length", "64", "--only", "dilation", "masks", "--out", "out"]
    done = longspan("bench", "kernel", *TINY, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Results: out/kernel.json"
    results = json.loads((tmp_path / "out/kernel.json").read_text())["results"]
    assert len(results) == 8
    assert all(result["passed"] in (True, False) for result in results)


def test_bench_model_writes_its_bars(tmp_path: Path) -> None:
    sizes = ["--layers", "2", "--hidden-size", "16", "--heads", "2", "--intermediate-size", "24"]
    sizes += ["--window", "8", "--vocabulary", "50", "--length", "16", "--repetitions", "1", "--threads", "1"]
    options = ["--impl", "blocked", "--only", "bf16", "long-document", "--out", "out"]
    done = longspan("bench", "model", *sizes, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Results: out/model.json"
    report = json.loads((tmp_path / "out/model.json").read_text())
    assert report["setting"]["shape"]["layers"] == 2
    assert report["failed"] == {}
    found = [(result["name"], result["direction"]) for result in report["results"]]
    assert found == [
        ("model, bf16, times as fast as fp32", "forward"),
        ("model, bf16, times as fast as fp32", "training"),
        ("long document, tokens per second against a short one", "forward"),
        ("long document, extra memory in GB", "forward"),
    ]
