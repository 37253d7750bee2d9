"""The page in a real browser: every view, links, keys, a run that stops while one looks, and axe-core's checks."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.server.browser import axe, chromium
from tests.server.shop import Shop
from trident import Count, TridentTopology, openTopology
from trident.errors import TridentError
from trident.run.running import RunningTopology
from trident.server.access_rules import Rights
from trident.server.http_server import serve
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState

TOKEN = "0123456789abcdef"
VIEWS = ("topology", "batches", "states", "functions", "dead-letters", "sql")
_SECONDS = 10_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


class Looking:
    """A person who looks at the page of a running shop."""

    def __init__(self, browser: Any, shop: Shop, running: RunningTopology, url: str, **options: Any) -> None:
        self.shop, self.running, self.url = shop, running, url
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page.set_default_timeout(_SECONDS)
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._told)
        self.go("topology")

    def _told(self, message: Any) -> None:
        # The browser itself tells of answers like 404 and 401, which the page handles.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def go(self, place: str) -> None:
        self.page.goto(f"{self.url}/#/{place}")

    def see(self, what: str, within: str = "body") -> None:
        """Wait until this text (a regular expression) is on the page."""
        self.page.locator(within).get_by_text(re.compile(what)).first.wait_for()

    def text(self, within: str = "main") -> str:
        return str(self.page.locator(within).inner_text())

    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def wait_hash(self, pattern: str) -> None:
        self.page.wait_for_function(f"new RegExp({pattern!r}).test(location.hash)")


Look = Callable[..., Looking]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Shop, RunningTopology]]:
    made = Shop(tmp_path)
    running = made.topology().start(
        engine="embedded", name="shop", checkpointLocation=tmp_path / "checkpoint", maxAttempts=2
    )
    try:
        made.fill(running)
        yield made, running
    finally:
        running.stop()


@pytest.fixture
def look(browser: Any, shop: tuple[Shop, RunningTopology]) -> Iterator[Look]:
    seen: list[Looking] = []

    def begin(server: Any = None, **options: Any) -> Looking:
        server = server or shop[1].serve()
        seen.append(Looking(browser, *shop, server.url, **options))
        return seen[-1]

    yield begin
    for looking in seen:
        looking.page.close()
        assert looking.faults == []


def test_the_topology_is_drawn_with_its_groups_promises_and_live_rates(look: Look) -> None:
    at = look()
    at.see("running", "#condition")
    at.see("batch group orders", ".cards")
    assert at.page.locator(".box").count() > 8
    at.page.locator(".box.state", has_text="sold").first.click()
    at.see("exactly-once", ".detail")
    assert "opaque, MemoryMapState" in at.text(".detail")
    at.page.get_by_role("link", name="Browse this state").click()
    at.wait_hash("^#/states/sold$")
    at.go("topology")
    at.shop.order(at.running, "apple,1,3", "fig,1,4")
    at.see(r"\d/s", ".picture")
    at.page.locator(".card", has_text="orders").get_by_text(re.compile(r"^3$")).first.wait_for()
    assert "watermark of hours" in at.text(".cards")
    assert "position of orders" in at.text(".cards")


def test_batches_are_a_timeline_and_each_has_an_address(look: Look) -> None:
    at = look()
    at.go("batches")
    at.page.locator("table.batches tbody tr").nth(2).wait_for()
    assert at.page.locator("svg.bar rect.commit").count() >= 3
    at.page.get_by_role("link", name="orders", exact=True).click()
    at.page.locator("table.batches a", has_text="2").first.click()
    at.see("phases", ".detail")
    assert "sold" in at.text(".detail") and "freeze" in at.text(".detail")
    shared = look(viewport={"width": 390, "height": 844})
    shared.page.goto(at.url + "/" + at.hash())
    shared.see("phases", ".detail")
    at.shop.order(at.running, "apple,1,3")
    at.page.locator("table.batches a", has_text="3").first.wait_for()
    assert "phases" in at.text(".detail"), "what is selected stays selected when a batch comes"
    at.page.get_by_role("link", name="visits", exact=True).click()
    at.page.locator("table.batches a", has_text="1").first.click()
    at.see(r"p50 .*, p99 .*, max .*, of \d+ message", ".detail")


def test_states_are_browsed_by_pages_top_and_key(look: Look) -> None:
    at = look()
    at.go("states/sold")
    at.see("item 001", ".result")
    first = at.text(".result tbody")
    at.page.get_by_role("link", name="Next page").click()
    at.wait_hash("after=")
    at.see("item 060", ".result")
    assert at.text(".result tbody") != first
    at.page.get_by_role("link", name="greatest").click()
    at.see("item 119", ".result")
    assert at.text(".result tbody").split()[:3] == ["item", "119", "119"]
    at.page.locator("#key").fill("pear")
    at.page.keyboard.press("Enter")
    at.see("^7$", ".result")
    assert at.hash() == "#/states/sold?key=pear" and "as of batch orders 2" in at.text(".result")
    at.go("states/sold?key=durian")
    at.see("Nothing is stored under durian", ".result")
    at.go("states/nothing")
    at.see("There is no state nothing")


def test_functions_are_asked_with_typed_arguments(look: Look) -> None:
    at = look()
    at.go("functions/enough")
    at.page.get_by_label("items").fill("apple pear")
    at.page.get_by_label("least").fill("5")
    at.page.get_by_role("button", name="Ask").click()
    at.see("1 row in", ".result")
    assert "pear" in at.text(".result") and "apple" not in at.text(".result")
    assert at.hash() == "#/functions/enough?items=apple+pear&least=5"
    at.go("functions/enough?items=apple&least=many")
    at.see("argument 'least' is 'many'", ".result")
    at.go("functions/sold?item=apple")  # an address that somebody shared
    at.see("^3$", ".result")


def test_a_query_is_run_and_shared(look: Look) -> None:
    at = look()
    at.go("sql")
    at.page.get_by_label("Query").fill("select count(*) as kinds, 1 as one from sold")
    at.page.get_by_role("button", name="Run").click()
    at.see("1 row in", ".result")
    assert at.text(".result tbody").split() == ["122", "1"] and "as of batch orders 2" in at.text(".result")
    at.wait_hash("^#/sql.q=select")
    shared = look()
    shared.page.goto(f"{at.url}/{at.hash()}")
    shared.see("1 row in", ".result")
    shared.page.get_by_label("Query").fill("select * from solt")
    shared.page.keyboard.press("Control+Enter")
    shared.see("no state 'solt'; did you mean 'sold'?", ".result")
    shared.page.get_by_role("link", name="sold", exact=True).click()
    shared.see("20 rows in", ".result")


def test_a_result_with_numbers_has_a_chart(look: Look) -> None:
    at = look()
    bars = "select name, value as n, value / 2 as half from (values ('a', 4), ('b', -2), ('c', 7)) as t(name, value)"
    at.go(f"sql?{urlencode({'q': bars})}")
    at.see("n by name: 3 rows, from -2 to 7", ".chart")
    drawn = at.page.locator(".chart rect")
    assert drawn.evaluate_all("all => all.map(each => each.textContent)") == ["a: 4", "b: -2", "c: 7"]
    heights = drawn.evaluate_all("all => all.map(each => Math.round(each.getAttribute('height')))")
    assert heights == [71, 36, 124]  # of 160, which is 9
    at.page.get_by_label("Column").select_option("half")
    at.see("half by name: 3 rows, from -1 to 3.5", ".chart")
    at.go(f"sql?{urlencode({'q': 'select range as n from range(100)'})}")
    at.see("n: 100 rows, from 0 to 99", ".chart")
    points = at.page.locator(".chart polyline").get_attribute("points").split()
    assert (len(points), points[0], points[-1]) == (100, "0,160", "960,0")
    at.go(f"sql?{urlencode({'q': 'select item from sold'})}")
    at.see("rows in", ".result")
    assert at.page.locator(".chart").count() == 0


def test_dead_letters_are_read_and_put_back(look: Look) -> None:
    at = look()
    at.shop.lenient = True
    at.go("dead-letters")
    at.see("plum,many,56")
    at.page.locator("table.letters a").first.click()
    at.see("each", ".detail")
    assert at.hash().startswith("#/dead-letters?letter=")
    at.page.get_by_role("button", name="Put 1 letter back into orders").click()
    at.page.get_by_role("button", name="Put back", exact=True).click()
    at.see("No dead letters")
    at.go("states/sold?key=plum")
    at.see("^0$", ".result")


def test_a_topology_stops_while_one_looks(look: Look) -> None:
    at = look()
    at.go("batches")
    at.see("running", "#condition")
    with pytest.raises(TridentError):
        at.shop.order(at.running, "fire,1,1")
    at.see("Batch group orders stopped: A function of your code failed on a tuple", "#notice")
    said = at.text("#notice")
    assert "the till is on fire" in said and "What to do" in said and 'onError="skip"' in said
    assert at.text("#condition") == "failed"
    at.page.get_by_role("link", name="failed", exact=True).click()
    at.see("the till is on fire", "table.batches")
    at.page.reload()
    at.see("stopped: A function", "#notice")
    at.running.stop()
    at.see("lost its server", "#notice")


def test_an_address_that_changes_before_the_plan_has_come_is_drawn(look: Look) -> None:
    at, held, holds = look(), list[Any](), True
    at.go("batches")

    def answer(route: Any) -> None:
        if holds:
            held.append(route)
        else:
            route.continue_()

    at.page.route("**/topology", answer)
    at.page.reload()
    while len(held) < 2:  # the second one by the same view at another address
        at.page.evaluate("location.hash = '#/batches?only=failed'")
        at.page.wait_for_timeout(50)
    holds = False
    for route in reversed(held):
        route.continue_()
    at.page.get_by_role("link", name="failed", exact=True).wait_for()
    assert at.page.locator("main [role=alert]").count() == 0


def test_keys_lead_through_the_page(look: Look) -> None:
    at = look()
    at.see("batch group orders")
    for number, view in enumerate(VIEWS, 1):
        at.page.keyboard.press(str(number))
        at.wait_hash(f"^#/{view}$")
    at.page.keyboard.press("2")
    at.page.locator("table.batches a").first.wait_for()
    at.page.keyboard.press("j")
    at.wait_hash("batch=")
    first = at.hash()
    at.page.keyboard.press("j")
    at.page.wait_for_function(f"location.hash != {first!r}")
    at.page.keyboard.press("Escape")
    at.wait_hash("^#/batches$")
    at.page.keyboard.press("3")
    at.page.locator("#key").wait_for()
    at.page.keyboard.press("/")
    at.page.keyboard.type("2")  # into the field: no other view opens
    assert at.page.locator("#key").input_value() == "2" and at.hash() == "#/states"
    at.page.keyboard.press("Escape")
    at.page.keyboard.press("?")
    at.page.get_by_role("dialog").get_by_label("Single keys").uncheck()
    at.page.keyboard.press("Escape")
    at.page.keyboard.press("1")
    assert at.hash() == "#/states", "keys that are off do nothing"
    at.page.evaluate("document.querySelector('.skip').focus()")
    at.page.keyboard.press("Enter")
    assert at.page.evaluate("document.activeElement.id") == "main"


def test_a_token_is_asked_for_and_stays_in_the_tab(look: Look, shop: tuple[Shop, RunningTopology]) -> None:
    at = look(shop[1].serve(token=TOKEN))
    at.page.locator("#token").fill("a wrong token")
    at.page.keyboard.press("Enter")
    at.see("did not take this token")
    at.page.locator("#token").fill(TOKEN)
    at.page.keyboard.press("Enter")
    at.see("batch group orders")
    at.see("running", "#condition")
    assert at.page.evaluate("[localStorage.length, document.cookie, location.href.includes('0123')]") == [0, "", False]
    assert at.page.evaluate("Object.values(sessionStorage)") == [TOKEN]


def test_a_token_that_does_not_open_the_page_is_asked_for_again(look: Look, shop: tuple[Shop, RunningTopology]) -> None:
    few = "a-token-with-few-rights"
    at = look(shop[1].serve(token=TOKEN, tokens={few: Rights(states=["sold"])}))
    for token, why in (
        (f"{TOKEN}\u200b", "a character that cannot be sent"),
        ("“quoted”", "a character that cannot be sent"),
        (few, "this token allows only: /state/sold"),
        ("wrong", "did not take this token"),
    ):
        at.page.locator("#token").fill(token)
        at.page.keyboard.press("Enter")
        at.see(why, "#token-wrong")
        assert at.page.evaluate("sessionStorage.length") == 0, "it is kept when the server has taken it"
    at.page.locator("#token").fill(TOKEN)
    at.page.keyboard.press("Enter")
    at.see("batch group orders")
    at.page.evaluate(f"sessionStorage.setItem('trident-token', '{few}')")  # its rights were taken since
    at.page.reload()
    at.page.locator("#token-dialog[open]").wait_for()


ODD_KEYS = {"": 3, ".": 4, "..": 5, "changes": 6, "a/../b": 7, "é%2F": 8, '"': 9, "-": 10}
LONG = 2**53 + 1


def test_any_key_is_looked_up_as_it_is(browser: Any, tmp_path: Path) -> None:
    topology, feeder, numbers = TridentTopology(), FeederBatchSpout("word string"), FeederBatchSpout("n long")
    for name, spout, key in (("words", feeder, "word"), ("numbers", numbers, "n")):
        stream = topology.newStream(name, spout).groupBy(key)
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
    topology.newDRPCStream("echo", "n long").filter("n", lambda n: n > 0)
    with (
        topology.start(engine="embedded", name="keys", checkpointLocation=tmp_path) as running,
        running.serve() as server,
    ):
        feeder.feed([(key,) for key, count in ODD_KEYS.items() for _ in range(count)])
        numbers.feed([(LONG,)])
        running.processAllAvailable(30)
        at = Looking(browser, Shop(tmp_path), running, server.url)
        for key, count in ODD_KEYS.items():
            at.go("states/words")
            at.page.locator("#key").fill(key)
            at.page.get_by_text("Look up").click()
            at.see(f"^{count}$", ".value")
        at.go("states/numbers")
        at.page.locator("td a").click()  # the key is beyond what the page's own numbers can tell apart
        at.wait_hash(str(LONG))
        at.see("^1$", ".value")
        at.go(f"functions/echo?n={LONG}")
        at.see("9,007,199,254,740,993", ".result")
        assert "trident_feed_readers" not in httpx.get(f"{server.url}/metrics").text
        at.page.close()
        assert at.faults == []


def test_what_a_topology_says_is_never_read_as_html(look: Look) -> None:
    at = look()
    at.shop.order(at.running, "<img src=x onerror=alert(1)>,1,5", "<b>bold</b>,many,5")
    for place, said in (("states/sold", "<img"), ("dead-letters", "<b>bold")):
        at.go(place)
        at.page.get_by_text(said).first.wait_for()
        assert at.page.locator("main img").count() == 0


def test_without_a_driver_states_are_browsed(browser: Any, shop: tuple[Shop, RunningTopology]) -> None:
    made, running = shop
    topology = Shop(made.folder).topology()
    with (
        openTopology(topology, name="shop", checkpointLocation=made.folder / "checkpoint") as opened,
        serve(opened, 0, "127.0.0.1", None, (), None, False) as server,
    ):
        at = Looking(browser, made, running, server.url)
        at.see("following", "#condition")
        at.see("last commit at .* ago|last commit at .* just now", "main")
        at.go("batches")
        at.see("reads the states without the driver")
        at.go("states/sold?key=pear")
        at.see("^7$", ".result")
        at.see("as of batch orders 2, committed", ".result")
        at.go("dead-letters")
        at.see("only through a driver that runs")
        at.page.close()
        assert at.faults == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_nothing_is_cut_off(look: Look, width: int, theme: str) -> None:
    source = axe()
    at = look(viewport={"width": width, "height": 844}, color_scheme=theme)
    at.see("batch group orders")
    places = {
        "topology?node=n2": ".detail h3",
        "batches?group=orders": "svg.bar",
        "states/visited": ".result table",
        "functions/sold?item=apple": ".result table",
        "dead-letters": "table.letters",
        "sql?q=select+*+from+sold+limit+3": ".result .chart",
        "sql?q=selec": ".result pre",
    }
    at.page.evaluate(source)
    for place, there in places.items():
        at.go(place)
        at.page.locator(there).first.wait_for()
        assert violations(at.page) == [], place
        assert at.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    with pytest.raises(TridentError):
        at.shop.order(at.running, "fire,1,1")
    at.see("What to do", "#notice")
    assert violations(at.page) == [], "stopped"


def violations(page: Any) -> list[str]:
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    nodes = [(each["id"], node) for each in found for node in each["nodes"]]
    return [f"{rule}: {node['html'][:160]} {node['failureSummary'][:300]}" for rule, node in nodes]
