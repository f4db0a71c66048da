"""The page in a real Chromium, with a real server and a reader without a model."""

import re
from collections.abc import Generator
from typing import Any

import pytest

from longspan.web.app import STATIC, create_app
from longspan.web.samples import Sample
from longspan.web.settings import ServeSettings
from tests.web.asking import RIVERS
from tests.web.chromium import chromium
from tests.web.live import serving
from tests.web.plain_reader import PlainReader

SETTINGS = ServeSettings(max_upload_bytes=2_000_000)
HARM = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'
SHOWN = "#answers-card:visible"
SUGGESTED = ("Which river flows through a town?", "Who wrote a long book?")


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
    sample = Sample(title="A sample", path=book, questions=SUGGESTED)
    with serving(create_app(reader, SETTINGS, model="plain", samples=[sample])) as one:
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
    page.wait_for_selector("#start", state="visible")
    return page


def give(page: Any, name: str, text: str) -> None:
    page.set_input_files("#files", {"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    is_titled(page, name)


def is_titled(page: Any, name: str) -> None:
    """Waits until a document is shown."""
    page.wait_for_function("name => document.getElementById('text-title').textContent === name", arg=name)


def ask(page: Any, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(SHOWN)


def comes_into_sight(page: Any, selector: str) -> None:
    """Waits until an element is within the text's pane."""
    page.wait_for_function(
        """selector => {
          const pane = document.getElementById("text").getBoundingClientRect();
          const box = document.querySelector(selector).getBoundingClientRect();
          return box.top >= pane.top && box.bottom <= pane.bottom;
        }""",
        arg=selector,
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
    assert page.is_visible("#start") and page.is_hidden("#desk"), "one thing to do"
    page.click("#start-paste")
    page.fill("#paste-text", f"A title\n\n{HARM}")
    page.click("#paste-form button[type=submit]")
    is_titled(page, "A title.txt")
    assert page.is_hidden("#start") and page.is_visible("#question")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["Dropped text."], "dropped.md"));
          const over = new DragEvent("dragenter", { dataTransfer: data });
          window.dispatchEvent(over);
          if (document.getElementById("drop").hidden) throw new Error("where to drop is not shown");
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        }"""
    )
    is_titled(page, "dropped.md")
    assert page.is_hidden("#drop")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.setData("text/plain", "Pasted into the page");
          document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }"""
    )
    is_titled(page, "Pasted into the page.txt")
    page.click("#samples button")
    is_titled(page, "A sample")
    assert page.locator("#samples button").count() == 0, "it is open already"
    assert page.locator("#documents li").count() == 4
    page.reload()
    page.wait_for_selector("#documents li >> nth=3")
    page.click("[aria-label='Remove dropped.md']")
    page.wait_for_selector("#documents li >> nth=3", state="detached")


def test_the_sample_comes_with_questions(page: Any) -> None:
    page.click("#start-samples button")
    page.wait_for_selector("#suggestions .chip")
    assert page.locator("#suggestions .chip").all_text_contents() == list(SUGGESTED)
    page.click("#suggestions .chip >> nth=0")
    page.wait_for_selector(SHOWN)
    assert page.input_value("#question") == SUGGESTED[0]
    assert page.text_content("mark.best.chosen") == "Dresden"
    assert page.is_hidden("#suggestions"), "they have served"


def test_a_file_that_is_on_its_way_is_shown_and_stopped(page: Any) -> None:
    stalled: list[Any] = []
    # Not the method itself, which has no place for what Playwright notes on a function.
    page.route("**/api/documents?*", lambda route: stalled.append(route))
    files = [{"name": name, "mimeType": "text/plain", "buffer": b"Words."} for name in ("a.txt", "b.txt")]
    with page.expect_request("**/api/documents?*"):
        page.set_input_files("#files", files)
    page.wait_for_selector("#documents .pending >> nth=1")
    states = page.locator("#documents .pending .hint").all_text_contents()
    assert states == ["Opening …", "Waiting …"]
    page.click("[aria-label='Stop adding b.txt']")
    page.click("[aria-label='Stop adding a.txt']")
    page.wait_for_selector("#start", state="visible")
    assert len(stalled) == 1, "what was stopped in time is never sent"
    assert page.is_hidden("#alert") and page.text_content("#status") == "Cancelled."


def test_refusals_are_shown_and_the_page_goes_on(page: Any) -> None:
    bad = {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 x"}
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a" * 2_000_001}
    good = {"name": "good.txt", "mimeType": "text/plain", "buffer": b"Words."}
    page.set_input_files("#files", [bad, large, good])
    is_titled(page, "good.txt")
    said = page.locator("#alert p").all_text_contents()
    assert len(said) == 2, "each bad file is told of, though a good one came after"
    assert "a.pdf cannot be read as PDF" in said[0] and "large.txt is too large" in said[1]
    page.click("#alert-close")
    assert page.is_hidden("#alert")
    page.press("#question", "Enter")
    assert "question is empty" in page.text_content("#alert")
    give(page, "rivers.txt", RIVERS)
    assert page.is_hidden("#alert")
    ask(page, "Which river flows through a town?")
    page.evaluate("sessionStorage.setItem('longspan-session', 'forgotten')")
    page.fill("#question", "Which river is it?")
    page.press("#question", "Enter")
    page.wait_for_function("() => document.getElementById('alert').textContent.includes('has forgotten')")
    assert page.locator("#documents li").count() == 0 and page.is_visible("#start")


def test_nothing_found_is_said(page: Any) -> None:
    give(page, "rivers.txt", RIVERS)
    ask(page, "Xyzzy?")
    assert "does not seem to answer" in page.text_content("#answers")
    assert page.is_hidden("#strip") and page.is_hidden("#walk") and page.locator("mark").count() == 0
    assert page.text_content("#status") == "Nothing in the text seems to answer this."


def test_everything_works_from_the_keyboard(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "start-paste"
    page.keyboard.press("Enter")
    page.keyboard.type(RIVERS)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    # Where the dialog was opened is no longer there: what comes next has the focus.
    page.wait_for_function("() => document.activeElement.id === 'question'")
    page.wait_for_selector("#text p")
    page.keyboard.type("Which river? Who wrote the long book?")
    page.keyboard.press("Enter")
    page.wait_for_selector("mark.chosen")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.answer") == "1"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("mark.chosen[data-answer='2']")
    assert page.evaluate("document.activeElement.dataset.answer") == "2", "what was pressed keeps the focus"
    page.focus("#text")
    page.keyboard.press("n")
    page.wait_for_selector("mark.chosen:not([data-answer='2'])")
    page.keyboard.press("p")
    page.wait_for_selector("mark.chosen[data-answer='2']")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "window", "the text does not keep the focus"
    outlined = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outlined) == "solid", "where the focus is can be seen"
    page.focus("#paste")
    page.keyboard.press("Enter")
    page.wait_for_selector("#paste-dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#paste-dialog", state="hidden")
    assert page.evaluate("document.activeElement.id") == "paste"


def test_answers_are_walked_through(page: Any) -> None:
    give(page, "rivers.txt", RIVERS)
    ask(page, "Which river? Who wrote the long book?")
    last = page.locator(".answer").count()
    assert last > 1
    page.wait_for_function(
        "all => document.getElementById('walk-text').textContent === `1 of ${all}`", arg=last
    )
    page.click("#walk-back")
    page.wait_for_function(
        "all => document.getElementById('walk-text').textContent === `${all} of ${all}`", arg=last
    )
    assert page.get_attribute("mark.chosen", "data-answer") == str(last)
    page.click("#walk-on")
    page.wait_for_selector("mark.chosen[data-answer='1']")


def test_a_phone_goes_from_an_answer_to_its_place(browser: Any, address: str) -> None:
    size = {"width": 360, "height": 640}
    page = opened(browser, address, viewport=size, is_mobile=True, has_touch=True)
    give(page, "rivers.txt", "Nothing is said here.\n\n" * 200 + RIVERS)
    ask(page, "Which river flows through a town?")
    in_view = """selector => {
      const box = document.querySelector(selector)?.getBoundingClientRect();
      return box && box.top >= 0 && box.bottom <= innerHeight;
    }"""
    page.wait_for_function(in_view, arg=".answer.best")
    assert not page.evaluate(in_view, "mark.chosen"), "it is below the answers"
    page.tap(".answer.best")
    page.wait_for_function(in_view, arg="mark.chosen")
    page.context.close()


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
        "() => document.getElementById('status').textContent === 'In the queue: 1 before yours'"
    )
    page.keyboard.press("Escape")
    page.wait_for_selector("#progress", state="hidden")
    # Its turn has come: the first one's work was stopped, though nothing let it go.
    other.wait_for_function("() => document.getElementById('progress-text').textContent.includes('25 %')")
    assert page.text_content("#status") == "Cancelled." and reader.finished == finished
    other.press("#question", "Enter")
    assert "25 %" in other.text_content("#progress-text"), "asked twice, it keeps its place"
    reader.ended.clear()
    other.context.close()
    assert reader.ended.wait(60), "a tab that is closed stops its work"
    assert reader.finished == finished


def test_several_documents(page: Any) -> None:
    give(page, "one.txt", "Nothing is here.\n\n" * 50)
    give(page, "two.txt", RIVERS)
    page.click("#documents li >> nth=0 >> .document")
    is_titled(page, "one.txt")
    focused = "document.activeElement.querySelector('.name')?.textContent"
    assert page.evaluate(focused) == "one.txt", "the list was drawn anew, and keeps the focus"
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
    assert page.text_content("mark.chosen") == "Dresden"
    comes_into_sight(page, "mark.chosen")
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
    assert page.text_content("#compare-verdict") == "Both find “Dresden”."
    assert "pairs of tokens" in page.text_content(".column >> nth=1")
    assert page.locator("#compare-progress #progress").count() == 1, "it is shown where the button is"
    assert reader.windows[-2:] == [512, 32]
    assert page.locator(".column h4").all_text_contents() == ["Window 512", "Window 32"]
    page.click(".column >> nth=1 >> .answer.best")
    page.wait_for_selector("mark.chosen")
    assert page.text_content("mark.chosen") == "Dresden"
    comes_into_sight(page, "mark.chosen")
    page.click("[aria-label='Remove rivers.txt']")
    page.wait_for_selector("#start", state="visible")
    assert page.is_hidden("#compare") and page.locator(".column").count() == 0, "about what is gone"


NAMELESS = """() => [...document.querySelectorAll(
    "button, input, select, textarea, [role=img], [tabindex='0']")]
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


WRONG = """() => {
  const faint = document.createElement("p");
  faint.textContent = "Too faint to be read.";
  faint.style.color = "#7f7f7f";
  faint.style.backgroundColor = "#8f8f8f";
  document.body.append(faint);
  const nameless = document.createElement("button");
  nameless.style.height = "40px";
  document.body.append(nameless);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everyone_can_use_it(browser: Any, address: str, scheme: str, width: int) -> None:
    """Names of controls, contrast, width and headings, in light and dark, on a phone and on a desk."""
    phone = {"is_mobile": True, "has_touch": True} if width < 500 else {}
    size = {"width": width, "height": 740}
    page = opened(browser, address, viewport=size, color_scheme=scheme, **phone)
    assert (page.evaluate(NAMELESS), page.evaluate(FAINT)) == ([], []), "before there is a document"
    give(page, "a_name_of_a_file_that_is_much_too_long_for_any_telephone.txt", RIVERS + " " + "x" * 300)
    ask(page, "Which river flows through a town?")
    page.click("#compare-button")
    page.wait_for_selector(".column >> nth=1")
    page.set_input_files("#files", {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 x"})
    page.wait_for_selector("#alert p")
    assert (page.evaluate(NAMELESS), page.evaluate(FAINT)) == ([], [])
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is wider than the screen"
    page.click("#alert-close")
    page.click("#paste")
    assert (page.evaluate(NAMELESS), page.evaluate(FAINT)) == ([], []), "with a dialog"
    page.click("#paste-close")
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
    page.evaluate(WRONG)
    assert len(page.evaluate(NAMELESS)) == 1 and len(page.evaluate(FAINT)) == 1, (
        "these checks find what is wrong"
    )
    heights = "[...document.querySelectorAll('button')].map(one => one.offsetHeight)"
    assert all(height == 0 or height >= 24 for height in page.evaluate(heights)), (
        "a finger meets every button"
    )
    page.context.close()


def test_the_page_ships_with_the_package() -> None:
    """Every file that the page names is beside it."""
    names = {path.name for path in STATIC.iterdir()}
    named = {
        found
        for path in STATIC.iterdir()
        if path.suffix in (".js", ".html")
        for found in re.findall(r'(?:from "\./|/static/)([^"]+)"', path.read_text())
    }
    assert named <= names
    assert names - named == {"index.html"}, "nothing ships that nothing names"
