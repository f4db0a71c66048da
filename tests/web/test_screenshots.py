"""The pictures of the documents, as their recipe takes them."""

import re
import runpy
from pathlib import Path

from longspan.web.app import create_app
from tests.web.chromium import chromium
from tests.web.plain_reader import PlainReader

ROOT = Path(__file__).parents[2]


def test_the_pictures_of_the_documents_are_taken(tmp_path: Path) -> None:
    with chromium() as browser:
        assert browser.version
    recipe = runpy.run_path(str(ROOT / "recipes/screenshots.py"))
    app = create_app(PlainReader(), samples=[recipe["SAMPLE"]])
    recipe["take"](app, "In which valley did Buck live?", tmp_path)
    taken = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shown = set(re.findall(r"images/(page-\w+\.png)", (ROOT / "docs/page.md").read_text()))
    assert shown and shown == set(taken)
    assert len(set(taken.values())) == len(taken), "each shows something else"
    assert all(len(picture) > 20_000 for picture in taken.values()), "none is blank"
