"""Pictures of the page for the documents: the book that comes with longspan, asked by its reader.

python recipes/screenshots.py [--model SOURCE] [--question "Who ...?"] [--out docs/images]

Needs Chromium and the extra dev.
"""

import argparse
import shutil
import threading
from pathlib import Path

from fastapi import FastAPI
from playwright.sync_api import Page, sync_playwright

from longspan.apps.reader import Reader
from longspan.cli.demo import QUESTIONS
from longspan.embedded import BOOK
from longspan.web.app import create_app
from longspan.web.samples import Sample
from longspan.web.serving import address_of, bound_socket, server_of

DESKTOP = {"width": 1360, "height": 900}
PHONE = {"width": 390, "height": 844}
SAMPLE = Sample(title="The Call of the Wild", path=BOOK, questions=QUESTIONS)


def main() -> None:
    """Writes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a reader's source; by default the one of longspan")
    parser.add_argument("--question", default=QUESTIONS[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    name = "longspan's reader" if given.model is None else Path(given.model).name
    take(create_app(Reader(given.model), model=name, samples=[SAMPLE]), given.question, given.out)


def take(app: FastAPI, question: str, out: Path) -> None:
    """Serves the page, asks, and writes the pictures page-*.png."""
    out.mkdir(parents=True, exist_ok=True)
    listener = bound_socket("127.0.0.1", 0)
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with sync_playwright() as playwright:
            program = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport=DESKTOP, device_scale_factor=1.5, color_scheme="light")
            page.set_default_timeout(600_000)
            page.goto(address_of(listener, "127.0.0.1"))
            page.wait_for_selector("#pattern-picture svg")
            _picture(page, out / "page-start.png")
            page.click("#start-samples button")
            page.wait_for_selector("#documents .shown")
            page.fill("#question", question)
            page.press("#question", "Enter")
            page.wait_for_selector("#answers-card:visible")
            _picture(page, out / "page-light.png")
            page.emulate_media(color_scheme="dark")
            _picture(page, out / "page-dark.png")
            page.emulate_media(color_scheme="light")
            page.click("#compare-button")
            page.wait_for_selector(".column >> nth=1")
            page.locator(".windows").screenshot(path=out / "page-windows.png")
            page.set_viewport_size(PHONE)
            page.evaluate(
                "document.activeElement.blur(); document.querySelector('#question').scrollIntoView()"
            )
            page.evaluate("scrollBy(0, -40)")
            _picture(page, out / "page-phone.png")
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _picture(page: Page, path: Path) -> None:
    page.wait_for_timeout(300)
    page.screenshot(path=path)


if __name__ == "__main__":
    main()
