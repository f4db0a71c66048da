"""The page in a real Chromium, with a real server and a reader without a model."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from longspan.web.app import create_app
from longspan.web.settings import ServeSettings
from tests.web.asking import RIVERS
from tests.web.chromium import chromium
from tests.web.live import serving
from tests.web.plain_reader import PlainReader

SETTINGS = ServeSettings(max_upload_bytes=2_000_000)
HARM = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'
SHOWN = "#answers-card:visible"


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def reader() -> PlainReader:
    return PlainReader()


@pytest.fixture(scope="module")
def address(reader: PlainReader, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    book = tmp_path_factory.mktemp("sample") / "sample.txt"
    book.write_text(RIVERS)
    with serving(create_app(reader, SETTINGS, model="plain", samples={"A sample": book})) as one:
        yield one


@pytest.fixture
def page(browser: Any, reader: PlainReader, address: str) -> Generator[Any]:
    """A page that was opened; what it fetched and what went wrong in it is checked afterwards."""
    one = opened(browser, address)
    asked: list[str] = []
    wrong: list[str] = []
    one.on("request", lambda request: asked.append(request.url))
    one.on("pageerror", lambda error: wrong.append(str(error)))
    yield one
    reader.go.set()
    assert not wrong
    assert all(url.startswith(address) for url in asked), "something is fetched from elsewhere"
    one.context.close()


def opened(browser: Any, address: str, **options: Any) -> Any:
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}).new_page()
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_selector("#pattern-picture svg")
    return page


def give(page: Any, name: str, text: str) -> None:
    page.set_input_files("#files", {"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    page.wait_for_function("name => document.getElementById('text-title').textContent === name", arg=name)


def ask(page: Any, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(SHOWN)


def in_sight(page: Any, selector: str) -> bool:
    """Whether an element is within the text's pane, once it has come to rest."""
    page.wait_for_timeout(100)
    return page.evaluate(
        """selector => {
          const pane = document.getElementById("text").getBoundingClientRect();
          const box = document.querySelector(selector).getBoundingClientRect();
          return box.top >= pane.top && box.bottom <= pane.bottom;
        }""",
        selector,
    )


def test_answers_are_marked_in_the_text(page: Any) -> None:
    give(page, "rivers.txt", RIVERS)
    ask(page, "Which river flows through a town?")
    assert page.text_content("mark.best.chosen") == "Dresden"
    assert page.text_content("#text") == RIVERS, "marks change nothing of the text"
    assert page.text_content(".answer.best .answer-text") == "Dresden"
    assert page.text_content("#status").startswith("Best answer: Dresden")
    assert "Attention of the question" in page.text_content("#strip title")
    assert page.locator("#strip .chip").count() > 0 and page.locator("#strip .spot.best").count() == 1


def test_places_are_right_after_emoji(page: Any) -> None:
    give(page, "emoji.txt", f"😀😀😀 Good.\n\n😀 {RIVERS}")
    ask(page, "Which river flows through a town?")
    assert page.text_content("mark.best") == "Dresden"


def test_text_is_never_html(page: Any) -> None:
    give(page, f"{HARM.replace('/', '')}.txt", f"{HARM} flows through Dresden. {HARM}")
    ask(page, f"What flows through a town? {HARM}")
    assert page.text_content("#text").startswith(HARM)
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.harmed") is None


def test_pasting_and_dropping_and_the_sample(page: Any) -> None:
    page.click("#paste")
    page.fill("#paste-text", f"A title\n\n{HARM}")
    page.click("#paste-form button[type=submit]")
    page.wait_for_function("() => document.getElementById('text-title').textContent === 'A title.txt'")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["Dropped text."], "dropped.md"));
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        }"""
    )
    page.wait_for_function("() => document.getElementById('text-title').textContent === 'dropped.md'")
    page.click("#samples button")
    page.wait_for_function("() => document.getElementById('text-title').textContent === 'sample.txt'")
    assert page.locator("#documents li").count() == 3
    page.reload()
    page.wait_for_selector("#documents li >> nth=2")
    page.click("[aria-label='Remove dropped.md']")
    page.wait_for_selector("#documents li >> nth=2", state="detached")


def test_refusals_are_shown_and_the_page_goes_on(page: Any) -> None:
    page.press("#question", "Enter")
    assert "question is empty" in page.text_content("#alert")
    page.set_input_files("#files", {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 x"})
    page.wait_for_function(
        "() => document.getElementById('alert').textContent.includes('cannot be read as PDF')"
    )
    large = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a" * 2_000_001}
    page.set_input_files("#files", large)
    page.wait_for_function("() => document.getElementById('alert').textContent.includes('too large')")
    give(page, "rivers.txt", RIVERS)
    assert page.is_hidden("#alert")
    ask(page, "Which river flows through a town?")
    page.evaluate("sessionStorage.setItem('longspan-session', 'forgotten')")
    page.press("#question", "Enter")
    page.wait_for_function("() => document.getElementById('alert').textContent.includes('has forgotten')")
    assert page.locator("#documents li").count() == 0 and page.is_visible("#empty")


def test_everything_works_from_the_keyboard(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "paste"
    page.keyboard.press("Enter")
    page.keyboard.type(RIVERS)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#text p")
    # The form closes, the focus is where it was opened; the next ones are the sample and the question.
    page.wait_for_function("() => document.activeElement.id === 'paste'")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("Which river? Who wrote the long book?")
    page.keyboard.press("Enter")
    page.wait_for_selector(SHOWN)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.answer") == "1"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_attribute("mark.chosen", "data-answer") == "2"
    page.focus("#text")
    page.keyboard.press("n")
    assert page.get_attribute("mark.chosen", "data-answer") != "2"
    page.keyboard.press("p")
    assert page.get_attribute("mark.chosen", "data-answer") == "2"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "window", "the text does not keep the focus"
    outlined = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outlined) == "solid", "where the focus is can be seen"


def test_a_reading_is_watched_and_cancelled(
    page: Any, reader: PlainReader, browser: Any, address: str
) -> None:
    give(page, "rivers.txt", RIVERS)
    reader.go.clear()
    finished = reader.finished
    page.fill("#question", "Which river?")
    page.click("#ask-button")
    page.wait_for_function("() => document.getElementById('progress-text').textContent.includes('25 %')")
    assert page.get_attribute("#progress-bar", "value") == "0.25"
    other = opened(browser, address)
    give(other, "rivers.txt", RIVERS)
    other.fill("#question", "Which river?")
    other.press("#question", "Enter")
    other.wait_for_function(
        "() => document.getElementById('status').textContent === 'In the queue, 1 before this one'"
    )
    page.keyboard.press("Escape")
    page.wait_for_selector("#progress", state="hidden")
    # Its turn has come: the first one's work was stopped, though nothing let it go.
    other.wait_for_function("() => document.getElementById('progress-text').textContent.includes('25 %')")
    assert page.text_content("#status") == "Cancelled." and reader.finished == finished
    other.click("#cancel")
    other.wait_for_selector("#progress", state="hidden")
    other.context.close()


def test_several_documents(page: Any) -> None:
    give(page, "one.txt", "Nothing is here.\n\n" * 50)
    give(page, "two.txt", RIVERS)
    page.click("#documents li >> nth=0 >> .document")
    page.wait_for_function("() => document.getElementById('text-title').textContent === 'one.txt'")
    ask(page, "Which river flows through a town?")
    page.wait_for_selector("mark.chosen")
    assert page.text_content("#text-title") == "two.txt", "the answer's document was opened"
    assert page.locator("#strip .border").count() == 1
    page.click("#strip svg", position={"x": 5, "y": 20})
    page.wait_for_function("() => document.getElementById('text-title').textContent === 'one.txt'")


def test_a_long_book(page: Any) -> None:
    filler = "The weather was as it had been on all other days, and nobody said a word about that. " * 5
    book = "\n\n".join([filler] * 800) + f"\n\n{RIVERS}\n\n" + "\n\n".join([filler] * 300)
    assert len(book) > 300_000
    give(page, "book.txt", book)
    skips = "getComputedStyle(document.querySelector('.chunk')).contentVisibility"
    assert page.evaluate(skips) == "auto" and page.locator(".chunk").count() > 50
    ask(page, "Which river flows through a town?")
    page.wait_for_function("() => document.getElementById('text').scrollTop > 10000")
    assert page.text_content("mark.chosen") == "Dresden" and in_sight(page, "mark.chosen")
    page.click("#strip svg", position={"x": 2, "y": 20})
    page.wait_for_function("() => document.getElementById('text').scrollTop < 10000")


def test_windows_are_drawn_and_compared(page: Any, reader: PlainReader) -> None:
    assert page.text_content("#pattern-text").startswith("544 of 1,600 pairs")
    page.focus("#window")
    page.keyboard.press("Home")
    page.wait_for_function(
        "() => document.getElementById('pattern-text').textContent.startsWith('340 of 1,600')"
    )
    give(page, "rivers.txt", RIVERS)
    page.fill("#question", "Which river flows through a town?")
    page.click("#compare-button")
    page.wait_for_selector(".column >> nth=1")
    assert reader.windows[-2:] == [512, 32]
    assert page.locator(".column h4").all_text_contents() == ["Window 512", "Window 32"]
    page.click(".column >> nth=1 >> .answer.best")
    assert page.text_content("mark.chosen") == "Dresden"


NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, [role=img], [tabindex]")]
  .filter(one => {
    const by = (one.getAttribute("aria-labelledby") ?? "").split(" ").map(id => document.getElementById(id));
    const texts = [one.getAttribute("aria-label"), ...by.map(other => other?.textContent),
      ...[...(one.labels ?? [])].map(label => label.textContent),
      one.tagName === "BUTTON" ? one.textContent : null, one.querySelector("title")?.textContent];
    return !texts.some(text => text?.trim());
  }).map(one => one.outerHTML)"""

FAINT = """() => {
  const rgb = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { colour: found.slice(0, 3), alpha: found[3] ?? 1 };
  };
  const light = colour => {
    const linear = x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map(x => linear(x / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = one => {
    for (let at = one; at; at = at.parentElement) {
      const { colour, alpha } = rgb(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const one of document.querySelectorAll("body *")) {
    const says = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!says || !one.checkVisibility() || one.closest(".unseen")) continue;
    const style = getComputedStyle(one);
    const text = light(rgb(one.closest("svg") ? style.fill : style.color).colour);
    const back = light(ground(one));
    const contrast = (Math.max(text, back) + .05) / (Math.min(text, back) + .05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(2)}: ${one.outerHTML.slice(0, 90)}`);
  }
  return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everyone_can_use_it(browser: Any, address: str, scheme: str, width: int) -> None:
    """Names of controls, contrast, width and headings, in light and dark, on a phone and on a desk."""
    phone = {"is_mobile": True, "has_touch": True} if width < 500 else {}
    size = {"width": width, "height": 740}
    page = opened(browser, address, viewport=size, color_scheme=scheme, **phone)
    give(page, "a_name_of_a_file_that_is_much_too_long_for_any_telephone.txt", RIVERS + " " + "x" * 300)
    ask(page, "Which river flows through a town?")
    page.click("#paste")
    page.click("#compare-button")
    page.wait_for_selector(".column >> nth=1")
    page.evaluate("document.querySelector('#alert').hidden = false")
    page.evaluate("document.querySelector('#alert-text').textContent = 'An error.'")
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(FAINT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is wider than the screen"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1 and all(
        after - before <= 1 for before, after in zip(levels, levels[1:], strict=False)
    )
    heights = "[...document.querySelectorAll('button')].map(one => one.offsetHeight)"
    assert all(height == 0 or height >= 24 for height in page.evaluate(heights)), (
        "a finger meets every button"
    )
    page.context.close()


def test_the_page_ships_with_the_package() -> None:
    """Every file that the page names is beside it."""
    folder = Path(__file__).parents[2] / "src/longspan/web/static"
    names = {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        if path.suffix in (".js", ".html"):
            for line in path.read_text().splitlines():
                for mark in ('from "./', "/static/"):
                    if mark in line:
                        assert line.split(mark)[1].split('"')[0] in names
