"""The dashboard's page in a real browser: Debian's headless Chromium, which the first run fetches (64 MB)."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from cli.clusters.dashboard.page_data import Seen, build_page
from cli.clusters.dashboard.server import DashboardServer
from cli.jobs.goodput.time_account import PARTS
from testkit import browser
from testkit.browser import Tab
from testkit.dashboard_world import NOW, SEEN, STATUS

pytestmark = pytest.mark.mission_only
WIDTHS = (375, 768, 1280, 1600)
MARKUP = "<img src=x onerror=document.body.dataset.attacked=1><b>bold</b>"
CUT = """[...document.querySelectorAll("tbody th, td, dd, p, li")]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)"""
"""JavaScript expression that returns the texts that do not fit into their boxes."""
CONTRAST = """(() => {
  const light = (color) => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? behind(element.parentElement) : color;
  };
  return [...document.querySelectorAll("body *")]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) && one.checkVisibility())
    .map((one) => {
      const [high, low] = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => b - a);
      return [one.tagName + "." + one.className + " " + one.textContent.slice(0, 20), (high + 0.05) / (low + 0.05)];
    })
    .filter(([, ratio]) => ratio < 4.5);
})()"""
"""JavaScript expression that returns the texts with less contrast than WCAG level AA requires:
https://www.w3.org/TR/WCAG22/#contrast-minimum
"""

PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))"
"""JavaScript expression that waits until the browser has painted all changes so far."""


class World:
    """A dashboard server that serves data from a test."""

    def __init__(self) -> None:
        self.seen: Seen = SEEN
        self.second = 0
        self.server = DashboardServer(0, self.fetch_document)
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def fetch_document(self) -> dict[str, Any]:
        self.second += 1
        return {**build_page(self.seen, NOW), "clock": f"read {self.second}"}

    def stop(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def page_server() -> Iterator[World]:
    server = World()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser.open_tab(tmp_path_factory.mktemp("chromium"), print) as opened_tab:
        yield opened_tab


@pytest.fixture
def open_page(tab: Tab, page_server: World) -> Iterator[Callable[[int], Tab]]:
    """Open the page in a window of a given width. After the test, check that the page had no errors and sent no
    requests to other hosts.
    """

    def open_at_width(width: int, scheme: str = "light") -> Tab:
        tab.errors.clear()
        tab.requests.clear()
        tab.size(width)
        tab.set_color_scheme(scheme)
        tab.open(page_server.server.url)
        tab.wait_until("document.querySelectorAll('#jobs tbody tr').length > 0 || !document.querySelector('#unknown').hidden")
        return tab

    yield open_at_width
    tab.evaluate("1")  # any command will do: the tab receives pending events only while it waits for a result
    assert tab.errors == []
    assert {urlsplit(url).netloc for url in tab.requests} == {f"127.0.0.1:{page_server.server.port}"}


def refresh_page(tab: Tab) -> None:
    """Make the page reload its data at once: pausing and resuming does not wait for the next reload interval."""
    before = tab.evaluate("document.querySelector('#clock').textContent")
    tab.evaluate("document.querySelector('#pause').click(), document.querySelector('#pause').click()")
    tab.wait_until(f"document.querySelector('#clock').textContent !== {json.dumps(before)}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window_and_all_text_is_readable(
    open_page: Callable[..., Tab], width: int, scheme: str
) -> None:
    tab = open_page(width, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(CUT) == []
    narrowest = "Math.min(...[...document.querySelectorAll('tbody .text')].map((one) => one.clientWidth || Infinity))"
    assert tab.evaluate(narrowest) >= 60, "a column is too narrow for its text"
    assert tab.evaluate(CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_phase_of_a_job_is_a_colored_segment_of_its_bar(open_page: Callable[..., Tab], scheme: str) -> None:
    parts = "[...document.querySelector('#jobs .bar:not(:empty)').children]"
    tab = open_page(1280, scheme)
    assert tab.evaluate(f"{parts}.map((one) => one.dataset.phase)") == list(PARTS)
    assert len(set(tab.evaluate(f"{parts}.map((one) => getComputedStyle(one).backgroundColor)"))) == len(PARTS)
    assert tab.evaluate(f"Math.min(...{parts}.map((one) => one.getBoundingClientRect().width))") >= 3


def test_color_scheme_follows_the_user_preference(open_page: Callable[..., Tab]) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    assert open_page(1280, "light").evaluate(color) == "rgb(246, 248, 250)"
    assert open_page(1280, "dark").evaluate(color) == "rgb(13, 17, 23)"


def test_the_keyboard_reaches_every_control_in_order_with_a_visible_focus(open_page: Callable[..., Tab]) -> None:
    tab = open_page(1280)
    focused_controls = []
    for _ in range(8):
        tab.press_key("Tab", 9)
        name, outline = tab.evaluate(
            "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert outline == "solid", name
        focused_controls.append(name)
    assert focused_controls == ["Skip to jobs", "Pause", "Jobs", "Nodes", "Pools", "Queues", "Cost", "Ended jobs"]


def test_enter_on_the_skip_link_moves_focus_to_the_jobs(open_page: Callable[..., Tab]) -> None:
    tab = open_page(1280)
    tab.press_key("Tab", 9)
    tab.press_key("Enter", 13)
    tab.wait_until("document.activeElement.id === 'jobs'")


def test_pause_stops_polling_and_resume_polls_at_once(open_page: Callable[..., Tab], page_server: World) -> None:
    tab = open_page(1280)
    tab.evaluate("document.querySelector('#pause').focus()")
    tab.press_key("Enter", 13)
    tab.wait_until("document.querySelector('#state').textContent === 'Paused'")
    assert tab.evaluate("document.querySelector('#pause').getAttribute('aria-pressed')") == "true"
    before = page_server.second
    tab.press_key("Enter", 13)
    tab.wait_until("document.querySelector('#state').textContent.startsWith('Live')")
    assert page_server.second == before + 1


def test_a_refresh_moves_nothing_and_keeps_every_row_element(open_page: Callable[..., Tab]) -> None:
    tab = open_page(768)
    tab.evaluate(PAINTED)  # the first paint shifts the whole layout
    tab.evaluate("""(window.moved = [], window.row = document.querySelector('#nodes tbody tr'),
      window.observer = new PerformanceObserver((list) => moved.push(...list.getEntries().map((one) => one.value))),
      observer.observe({type: 'layout-shift', buffered: false}))""")
    where = "JSON.stringify([...document.querySelectorAll('main *')].map((one) => one.getBoundingClientRect()))"
    before = tab.evaluate(where)
    for _ in range(3):
        refresh_page(tab)
    assert tab.evaluate(where) == before
    tab.evaluate(PAINTED)
    assert tab.evaluate("moved") == []
    assert tab.evaluate("window.row === document.querySelector('#nodes tbody tr')")


def test_a_cluster_change_updates_the_page(open_page: Callable[..., Tab], page_server: World) -> None:
    tab = open_page(1280)
    page_server.seen = replace(SEEN, status=replace(STATUS, jobs=(STATUS.jobs[2], STATUS.jobs[0])))
    refresh_page(tab)
    names = "[...document.querySelectorAll('#jobs tbody th .text')].map((one) => one.textContent)"
    assert tab.evaluate(names) == ["llm-pretrain", "mnist"]


def test_markup_in_data_is_shown_as_text(open_page: Callable[..., Tab], page_server: World) -> None:
    line = STATUS.jobs[0]
    hostile = replace(line, state=replace(line.state, name=MARKUP, reason=MARKUP), waits_for=MARKUP)
    page_server.seen = replace(SEEN, status=replace(STATUS, cluster=MARKUP, jobs=(hostile,), problems=(MARKUP,)), stale=MARKUP)
    tab = open_page(1280)
    tab.wait_until("document.querySelector('#state').textContent.startsWith('Not current')")
    assert tab.evaluate("document.querySelector('h1').textContent") == MARKUP
    assert tab.evaluate("document.querySelectorAll('main img, main b, h1 *').length") == 0
    assert tab.evaluate("document.body.dataset.attacked ?? ''") == ""


@pytest.mark.parametrize("width", [375, 1280])
def test_a_page_without_readable_data_shows_the_reasons(open_page: Callable[..., Tab], page_server: World, width: int) -> None:
    reason = "context ada may not list Nodes; ask for access"
    page_server.seen = Seen(NOW, replace(STATUS, pools=(), jobs=(), queues=(), unknown=(reason,)), reason, reason, reason)
    tab = open_page(width)
    assert tab.evaluate("document.querySelector('#unknown li').textContent") == reason
    assert tab.evaluate("document.querySelector('#nodes .notes').textContent") == reason
    assert tab.evaluate("[...document.querySelectorAll('table')].filter((one) => one.checkVisibility()).length") == 0


@pytest.mark.parametrize(("number", "is_open"), [(3, True), (4, False)])
def test_many_error_reasons_are_collapsed_until_the_reader_opens_them(
    open_page: Callable[..., Tab], page_server: World, number: int, is_open: bool
) -> None:
    page_server.seen = replace(SEEN, unknown=tuple(f"reason {index}" for index in range(number)))
    tab = open_page(1280)
    assert tab.evaluate("document.querySelector('#unknown-heading').textContent") == f"Could not be read ({number})"
    assert tab.evaluate("document.querySelector('#unknown details').open") == is_open
    tab.evaluate("document.querySelector('#unknown summary').click()")
    refresh_page(tab)
    assert tab.evaluate("document.querySelector('#unknown details').open") != is_open, "a refresh keeps the reader's choice"


def test_screen_readers_get_tables_on_a_narrow_screen_too(open_page: Callable[..., Tab]) -> None:
    nodes = open_page(375).send("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node.get("ignored")]
    assert {"main", "navigation", "table", "row", "rowheader", "cell", "status", "banner"} <= set(roles)
    names = [node.get("name", {}).get("value") for node in nodes if node["role"]["value"] == "region"]
    assert names == ["Jobs", "Nodes", "Pools", "Queues", "Cost so far", "Jobs that ended last"]
