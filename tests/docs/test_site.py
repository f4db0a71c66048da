"""The site builds without a warning and without a network, and loads nothing from another host."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import longspan
from tests.docs.pages import ROOT

needs_mkdocs = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason="mkdocs-material and mkdocstrings are not installed: pip install 'longspan[docs]'",
)
pytestmark = needs_mkdocs


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    # Whoever asks for another host gets a proxy that is not there.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | nowhere)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


class Loaded(HTMLParser):
    """What a page loads by itself: scripts, styles, pictures, frames; not what a click leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.addresses += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]
        if tag == "link" and given.get("rel") != "canonical":
            self.addresses.append(given.get("href", ""))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = Loaded()
        loaded.feed(text)
        assert loaded.addresses and not any(re.match(r"(\w+:)?//", one) for one in loaded.addresses), page
        # The theme's script fetches what draws these.
        assert 'class="mermaid"' not in text and "data-md-source" not in text, page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_pages_lead_to_each_other(site: Path) -> None:
    """Also to files outside of docs/, which are published along."""
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'href="([^"#?:]+)[#"]', page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(site)} leads to {target}"
    assert (site / "repository/src/longspan/attention/pattern.py.html").exists()


def test_reference_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    for name in longspan.__all__:
        assert f'id="longspan.{name}"' in page, name


def test_search_finds_the_guides(site: Path) -> None:
    index = (site / "search/search_index.js").read_text(encoding="utf-8")
    assert "howto/fine_tune.html" in index and "attend_global" in index
    found = re.findall(r'"location":"([^"#]+)', index)
    assert found and not any(place.endswith(".py.html") for place in found), "code would crowd it"
