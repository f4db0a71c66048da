"""A real browser for the tests of the page, where there is one."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Generator["Browser"]:
    """Debian's Chromium, or one that Playwright has; the test is skipped where there is neither."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    with sync_api.sync_playwright() as playwright:
        if program is None and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip(f"there is no Chromium: none of {', '.join(_PROGRAMS)}, and none of Playwright's")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
