"""The page of the character models says what the results say, and nothing else."""

import importlib
import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from longspan.benchmarks import char_lm as bench
from longspan.benchmarks.bars import Result
from longspan.training.metrics_log import MetricsLog

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with a text in place of enwik8 that takes no time to compress."""
    monkeypatch.syspath_prepend(ROOT / "recipes")
    found = {"xz -9e": 2.25, "zstd -19 --ultra": None}
    monkeypatch.setattr(importlib.import_module("char_lm_page"), "compressed", lambda path: found)
    return importlib.import_module("char_lm_tables")


def where(folder: Path) -> Namespace:
    return Namespace(data=folder, runs=folder, out=folder / "page.md", precision="fp32")


def a_result(folder: Path, bits: float, *, threads: int = 1, steps: int = 0) -> None:
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({"scores": {"bits_per_byte": bits}, "seconds": 60}))
    (folder / "versions.json").write_text(json.dumps([{"threads": threads}]))
    log = MetricsLog(folder, None)
    for step in range(1, steps + 1):
        log.write(step, float(step), "train", {"loss": 5.0 / step, "tokens": 1_000_000})
    log.close()


def test_rows_and_commands(tables: Any, tmp_path: Path) -> None:
    assert "## " not in tables.page(where(tmp_path))
    a_result(tmp_path / "table-2-staged-0", 1.5, steps=400)
    a_result(tmp_path / "table-4-fixed-0", 2.0)
    a_result(tmp_path / "table-4-fixed-1", 2.2)
    page = tables.page(where(tmp_path))
    assert "| three phases, length and windows doubled | 1 | bits_per_byte 1.500 | 1.0 |" in page
    assert "| `xz -9e` | | bits_per_byte 2.250 | |" in page
    assert "| `zstd -19 --ultra` | | not available | |" in page
    assert "| fixed windows, 64 | 2 | bits_per_byte 2.100 ± 0.141 | 1.0 |" in page
    assert "recipes/cpu/char-lm-windows.yaml" in page and str(ROOT) not in page
    assert "1 thread a run. Models learned from 400.0 MB of the 90 MB to train on, up to 4.4 times." in page
    assert "Three phases (1.500 bits per byte) against `xz -9e` (2.250): 33.3% fewer: beaten." in page
    kept = json.loads((tmp_path / "page.json").read_text())
    assert len(kept["table-2-staged-0"]["curve"]) <= 150 and "curve" not in kept["table-4-fixed-0"]
    for folder in tmp_path.glob("table-*"):
        shutil.rmtree(folder)
    assert tables.page(where(tmp_path)) == page, "results outlive the folders of their runs"


def test_orders_are_judged_by_the_spread(tables: Any, tmp_path: Path) -> None:
    scores = {
        "increasing": (2.0, 2.02),
        "fixed": (2.1, 2.12),
        "decreasing": (2.1, 2.14),
        "dilated": (2.2, 2.22),
    }
    for name, bits in scores.items():
        for seed, one in enumerate(bits):
            a_result(tmp_path / f"table-4-{name}-{seed}", one)
    page = tables.page(where(tmp_path))
    assert "- Increasing windows below fixed ones, as in the paper: yes, by 0.100 bits, spread" in page
    assert "- Fixed windows below decreasing ones, as in the paper: not beyond the spread (by 0.010" in page
    assert "- Dilation on 2 heads below none, as in the paper: no, the other way round, by 0.200" in page
    assert "Rotary positions" not in page
    assert "![Table 4](page-windows.png)" in page and (tmp_path / "page-windows.png").stat().st_size > 1000
    assert "relative sinusoids; as increasing in table 4 | 2 |" in page, "one run may stand in two tables"


def test_what_is_not_beaten_is_said(tables: Any, tmp_path: Path) -> None:
    a_result(tmp_path / "table-2-staged-0", 2.50)
    a_result(tmp_path / "table-2-one-phase-0", 2.45)
    page = tables.page(where(tmp_path))
    assert "Three phases (2.500 bits per byte) against `xz -9e` (2.250): 11.1% more: not beaten." in page
    assert "- Three phases against one: 0.050 bits more. One run each: no spread." in page


def test_speeds_are_shown_and_drawn(tables: Any, tmp_path: Path) -> None:
    results = [one for group in ("training", "generation") for one in bench.GROUPS[group](bench.QUICK)]
    assert all(isinstance(one, Result) for one in results)
    found = {
        "machine": {"cpu": "a processor", "threads": 2},
        "setting": {"source": "char-lm-mini"},
        "foreign_load": 0.02,
        "results": [one.record() for one in results],
    }
    (tmp_path / "page_speed.json").write_text(json.dumps(found))
    page = tables.page(where(tmp_path))
    assert "2 threads of\na processor; other processes used 2% of the machine" in page
    assert "| training, time per token, slowest length against fastest | training |" in page
    for name in ("training", "generation"):
        assert f"(page-{name}.png)" in page and (tmp_path / f"page-{name}.png").exists()
