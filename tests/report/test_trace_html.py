"""The trace as one page: what is in the file, and how it behaves in a browser."""

import json
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from expbench.report.trace import Trace, read_trace
from expbench.report.trace_html import trace_page
from expbench.report.visible import visible
from tests.report.browser import Browser, chromium
from tests.report.traces import HOSTILE, bank, record, token


def read(*records: Any, title: str = "m on t") -> Trace:
    questions = {r.sample_id: f"Question {r.sample_id}" for r in records}
    return read_trace(records, run_id="abc", title=title, questions=questions)


def embedded(page: str) -> Any:
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(data)


SOME = read(
    record(
        "first",
        bank("a", "b", summary="One.\nTwo."),
        token("One", ["a", "b"], [0.75, 0.25], gate=0.4),
        token("\n two", ["b", "a"], [0.2, 0.8], gate=0.1),
        token(" three", gate=0.0),
    ),
    record("hostile", bank(HOSTILE, summary=HOSTILE), token(HOSTILE, [HOSTILE], [1.0])),
    record("ranked", bank("a"), token("", ["a"], [1.0], gate=0.3), ranking=(2, 0, 1)),
    record("empty", bank()),
    record("shots", {"shots": [HOSTILE]}, text=HOSTILE, error=HOSTILE),
    title=f"m on t {HOSTILE}",
)


OPENNESS = "[...document.querySelectorAll('.token')].map(n => +n.style.getPropertyValue('--open'))"
COLOURS = """(() => {
  const paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const token = document.querySelector(".token");
  token.style.setProperty("--open", 1);
  const paint = (colour) => { paper.fillStyle = colour; paper.fillRect(0, 0, 1, 1); };
  const read = () => [...paper.getImageData(0, 0, 1, 1).data].slice(0, 3);
  paint(getComputedStyle(token.closest(".card")).backgroundColor);
  paint(getComputedStyle(token).backgroundColor);
  const back = read();
  paint(getComputedStyle(token).color);
  return [back, read()];
})()"""
"""JavaScript: the colour behind the first token with the widest gate, and that of its letters."""


class Elements(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_text_adds_no_element_to_the_page() -> None:
    harmless = read(record("q", bank("a"), token("x", ["a"], [1.0])))
    assert [tag for tag, _ in Elements(trace_page(SOME)).found] == [
        tag for tag, _ in Elements(trace_page(harmless)).found
    ]


def test_the_page_names_nothing_outside_itself() -> None:
    page = trace_page(SOME)
    for tag, attributes in Elements(page).found:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,"
    template = page.replace(page[page.index('id="data">') : page.rindex("<script>")], "")
    assert not re.search(r"https?:|url\(|@import|@font-face|innerHTML|eval\(", template)


def test_the_embedded_data_reads_back_and_has_no_character_that_ends_it() -> None:
    page = trace_page(SOME)
    data = embedded(page)
    assert data["answers"][1]["tokens"][0].startswith("</script><img")
    assert data["answers"][0]["weights"] == [[7500, 2500], [2000, 8000], []]
    assert data["answers"][0]["ids"] == [[0, 1], [1, 0], []]
    assert data["answers"][3]["tokens"] == []
    assert json.loads(data["answers"][4]["notes"][0]) == {
        "shots": [visible(HOSTILE).replace("‹U+001B›", "\x1b")]
    }
    raw = page[page.index('id="data">') + len('id="data">') : page.rindex("</script>\n<script>")]
    assert raw.isascii()
    assert not set(raw) & set("<>&\n")


def test_a_page_of_32_answers_with_256_tokens_and_8_experiences_stays_below_one_megabyte() -> None:
    draw = random.Random(0)
    names = [f"gsm8k/train-{i}/{i}/0" for i in range(512)]
    records = []
    for number in range(32):
        chosen = draw.sample(names, 64)
        tokens = [token(" word", draw.sample(chosen, 8), [0.1234567] * 8, 0.2) for _ in range(256)]
        records.append(record(str(number), bank(*chosen, summary="word " * 60), *tokens))
    assert len(trace_page(read(*records)).encode()) < 1_000_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no chromium on PATH")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "trace.html"
    path.write_text(trace_page(SOME), encoding="utf-8")
    browser.send("Emulation.setDeviceMetricsOverride", width=1200, height=900,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    browser.events.clear()
    yield path
    assert browser.complaints() == []
    assert {url.partition("#")[0] for url in browser.requested()} <= {
        path.as_uri(), "about:blank", "data:,",
    }  # fmt: skip


def detail(browser: Browser) -> str:
    return str(browser.value("document.getElementById('detail').innerText"))


def nth(number: int) -> str:
    return f".token:nth-of-type({number + 1})"


@pytest.mark.slow
def test_pointing_at_a_token_shows_its_experiences(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert "Point at a token" in detail(browser)
    browser.point(nth(0))
    shown = detail(browser)
    assert '"One"' in shown
    assert "Token 1 of 3 · gate 0.4000" in shown
    assert shown.index("weight 0.750 · × gate 0.3000") < shown.index("weight 0.250 · × gate 0.1000")
    assert "gsm8k · sample train-0 · reward 0.5" in shown
    widths = browser.value("[...document.querySelectorAll('#detail .fill')].map("
                           "n => n.offsetWidth / n.parentNode.offsetWidth)")  # fmt: skip
    assert widths == pytest.approx([0.75, 0.25], abs=0.01)
    browser.point(nth(2))
    assert "No experience was retrieved" in detail(browser)
    browser.point("h1")
    assert "Point at a token" in detail(browser)


@pytest.mark.slow
def test_a_click_pins_a_token_and_escape_lets_go(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.point(nth(1), click=True)
    assert browser.value("location.hash") == "#token=0:1"
    browser.point(nth(0))
    assert "Token 2 of 3" in detail(browser)
    assert browser.value(f"document.querySelector('{nth(1)}').ariaPressed") == "true"
    browser.key("Escape")
    assert "Token 1 of 3" in detail(browser)
    assert browser.value("document.querySelectorAll('.token[aria-pressed=true]').length") == 0


@pytest.mark.slow
def test_the_keyboard_alone_reaches_every_token(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.value("document.querySelector('.token[tabindex=\"0\"]').focus()")
    assert "Token 1 of 3" in detail(browser)
    browser.key("ArrowRight")
    assert "Token 2 of 3" in detail(browser)
    assert '"\\n two", token 2 of 3, gate 0.100, most from a' in str(
        browser.value("document.activeElement.ariaLabel")
    )
    browser.key("Enter")
    browser.key("End")
    assert "Token 2 of 3" in detail(browser)
    browser.key("Escape")
    assert "Token 3 of 3" in detail(browser)
    assert browser.value("document.querySelectorAll('.token[tabindex=\"0\"]').length") == 1


@pytest.mark.slow
def test_a_deep_link_pins_its_token_and_a_bad_one_is_ignored(browser: Browser, page: Path) -> None:
    browser.open(page, "#token=2:0")
    shown = detail(browser)
    assert "the prompt's last state" in shown
    assert "gate 0.3000" in shown
    assert "ranking: 3, 1, 2" in browser.value("document.getElementById('main').innerText")
    for fragment in ("#token=99:0", "#token=0:99", "#<img>"):
        browser.open(page, fragment)
        assert "Point at a token" in detail(browser)
    for fragment in ("#token=3:0", "#sample=4"):
        browser.open(page, fragment)
        assert browser.value("document.getElementById('detail').hidden") is True


@pytest.mark.slow
def test_every_answer_shows_hostile_text_as_text(browser: Browser, page: Path) -> None:
    browser.open(page, "#token=1:0")
    assert "</script><img src=x" in detail(browser)
    assert "</script><img src=x" in browser.value("document.querySelector('.token').innerText")
    for number in range(5):
        browser.point(f"#list li:nth-child({number + 1}) button", click=True)
        assert browser.value("document.images.length") == 0
        assert browser.value("document.title").startswith("m on t </script>")
    words = browser.value("document.getElementById('main').innerText")
    assert "\u202e" not in browser.value("document.documentElement.textContent")
    assert "Note of the method" in words
    assert "Grading failed" in words


@pytest.mark.slow
def test_the_search_narrows_the_list(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.value("document.getElementById('search').focus()")
    browser.send("Input.insertText", text="question RANK")
    assert browser.value("document.getElementById('list').innerText").split()[0] == "ranked"
    assert browser.value("document.getElementById('count').innerText") == "1 of 5 answers"


@pytest.mark.slow
def test_show_where_colours_the_tokens_one_experience_touched(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.value(OPENNESS) == pytest.approx([0.8, 0.2, 0.0])
    browser.point("[data-entry='1']", click=True)
    assert browser.value(OPENNESS) == pytest.approx([1.0, 0.2, 0.0])
    assert "weight × gate of b" in browser.value("document.getElementById('legend').innerText")
    browser.point("[data-entry='1']", click=True)
    assert browser.value(OPENNESS) == pytest.approx([0.8, 0.2, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 400, 800, 1200])
def test_nothing_is_wider_than_the_screen(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=800,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    browser.send("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
    long = "x" * 400
    answer = record(long, bank(long, summary=long), token(long, [long], [1.0]), error=long)
    wide = read(answer, title=long)
    page.write_text(trace_page(wide), encoding="utf-8")
    browser.open(page, "#token=0:0")
    assert browser.value("document.documentElement.scrollWidth") <= width
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(246, 247, 247)") == (scheme == "light")


@pytest.mark.slow
def test_letters_stand_out_from_the_widest_gate_s_colour(browser: Browser, page: Path) -> None:
    for scheme in ("light", "dark"):
        browser.send("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
        browser.open(page)
        low, high = sorted(map(luminance, browser.value(COLOURS)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, scheme


def luminance(colour: list[int]) -> float:
    """Relative luminance after WCAG 2."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (part / 255 for part in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.slow
def test_on_a_phone_a_linked_token_is_not_behind_the_panel(browser: Browser, page: Path) -> None:
    tokens = [token(f" word{i}", ["a"], [1.0]) for i in range(256)]
    path = page
    path.write_text(trace_page(read(record("q", bank("a"), *tokens))), encoding="utf-8")
    browser.send("Emulation.setDeviceMetricsOverride", width=400, height=800,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    browser.open(path, "#token=0:120")
    bottom = browser.value(
        "document.querySelectorAll('.token')[120].getBoundingClientRect().bottom"
    )
    panel = browser.value("document.getElementById('detail').getBoundingClientRect().top")
    assert 0 < bottom <= panel
