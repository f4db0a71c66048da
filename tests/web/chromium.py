"""A real browser for the tests of the page, where there is one."""

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
        try:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium can be started: {str(error).splitlines()[0]}")
        yield browser
        browser.close()
