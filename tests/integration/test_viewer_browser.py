"""The viewer in a real Chromium: every view and every key, on a run of more than 2,000 trajectories."""

import random
import re
import threading
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from viewer_browser import CHROMIUM, Browser
from viewer_run import EVIL, episode, made_task, make_run

from mobilerl.records.files import save_trajectories
from mobilerl.training.tracking import Tracker
from mobilerl.viewer import build
from mobilerl.viewer.serve import make_server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

TABS = ["overview", "tasks", "fleet", "groups", "trajectories", "replay", "evaluations", "diff"]
LOADED = """Boolean(sections.get(currentName)) && [...document.images].every((image) => {
    const { top, width } = image.getBoundingClientRect();  // images out of sight are loaded lazily
    return top > innerHeight || !width || (image.complete && image.naturalWidth > 0);
})"""
HOSTILE = "Template0/0"
CHANGED = "dispatchEvent(new Event('change'))"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mobilerl", "train", "--config", "adagrpo"])  # the start that the viewer shows
        run, other = make_run(folder / "big"), make_run(folder / "other", iterations=3, seed=1)
    more = [make_run(folder / name, iterations=1, seed=i) for i, name in enumerate(("third", "fourth"), start=2)]
    build(run, [other, *more])
    return run, other


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(runs, browser):
    """The address of the page. After the test: no errors on the console, and no requests to other places."""
    browser.errors.clear()
    browser.requests.clear()
    browser.size(1280, 860)
    browser.dark(False)
    yield (runs[0] / "view" / "index.html").as_uri()
    assert browser.errors == []
    assert browser.evaluate("document.title").endswith("big · mobilerl")  # no injected script ran
    assert all(url.startswith(("file://", "about:")) for url in browser.requests)


def view(browser, name, selector):
    browser.wait(f"currentName === {name!r} && document.querySelector({selector!r}) !== null")
    browser.wait(LOADED)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (800, True), (390, False)])
def test_every_view_is_drawn_without_an_error(page, browser, width, dark):
    browser.size(width, 860)
    browser.dark(dark)
    wanted = {
        "overview": ".chart.wide path",
        "tasks": ".taskrow canvas",
        "fleet": ".devicerow canvas",
        "groups": ".grouprow .squares",
        "trajectories": ".vrow.row",
        "replay": ".replayrow.vrow",
        "evaluations": ".forest .dot",
        "diff": ".charts path",
    }
    browser.open(page)
    for tab in TABS:
        browser.click(f'nav a[href="#{tab}"]')
        view(browser, tab, f"#view-{tab} {wanted[tab]}")
        shown = browser.evaluate("[...document.querySelectorAll('.view')].filter((v) => !v.hidden).map((v) => v.id)")
        assert shown == [f"view-{tab}"]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, tab
    for link, selector in (
        ("iter-000002/3/1", ".player .phone img"),
        ("group/iter-000002/3", ".lane .thumb img"),
        ("diff/" + quote(f"sim/{HOSTILE}", safe=""), ".lane .thumb img"),
        ("b:iter-000002/3/1", ".player .phone img"),
        ("d:iter-000001/3/1", ".player .phone img"),
        ("replay-000016/2/0", ".player .phone img"),
    ):
        browser.open(f"{page}#{link}")
        browser.wait(f"document.querySelector({selector!r}) !== null && {LOADED}")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, link


def test_the_device_table_shows_every_device_with_its_faults(page, browser):
    browser.open(page + "#fleet")
    browser.wait("document.querySelectorAll('#view-fleet .devicerow canvas').length > 0")
    assert browser.text("#view-fleet .tile .value") == "24"
    browser.evaluate("document.querySelector('#view-fleet select').value = 'faults'")
    browser.evaluate("document.querySelector('#view-fleet select').dispatchEvent(new Event('change'))")
    assert EVIL.strip() in browser.text("#view-fleet .vrow .cut")
    browser.press("j", "Enter")
    browser.wait("currentName === 'trajectories'")
    browser.wait("document.querySelector('#view-trajectories .chip:not([hidden])') !== null")
    assert "device avd-" in browser.text("#view-trajectories .chip")


def test_the_keyboard_reaches_every_view_and_every_step(page, browser):
    browser.open(page)
    for number, tab in enumerate(TABS, start=1):
        browser.press(str(number))
        browser.wait(f"currentName === {tab!r}")
    browser.press("4")
    view(browser, "groups", "#view-groups .grouprow.vrow")
    browser.press("j", "j", "Enter")
    browser.wait("location.hash === '#group/iter-000016/1' && document.querySelector('.lane') !== null")
    browser.press("n")
    browser.wait("location.hash === '#group/iter-000016/2'")
    browser.wait("document.querySelectorAll('.lane').length === 8")
    second = browser.each(".lane:nth-child(2) .thumb:nth-child(2)", "hash")[0]
    browser.press("ArrowDown", "ArrowRight", "Enter")
    browser.wait(f"location.hash === {second!r} && document.querySelector('.player .phone') !== null")
    browser.press("ArrowLeft")
    browser.wait(f"location.hash === {second[:-1] + '0'!r}")
    number = int(second.split("/")[1])
    browser.press("j")
    browser.wait(f"location.hash === '#iter-000016/{number + 1}/0'")
    browser.press("t")
    assert browser.evaluate("document.querySelector('.allsteps').open")
    browser.press("u")
    browser.wait("location.hash === '#group/iter-000016/2'")
    browser.press("Escape")
    browser.wait("location.hash === '#groups'")
    browser.press("?")
    assert browser.evaluate("document.getElementById('shortcuts').open")
    browser.press("Escape")
    assert not browser.evaluate("document.getElementById('shortcuts').open")
    browser.press("/", "j")
    assert browser.evaluate("document.activeElement.type") == "search"


def test_filters_and_the_slider_leave_the_keys_alive(page, browser):
    browser.open(page + "#trajectories")
    view(browser, "trajectories", ".vrow.row")
    browser.pointer("#view-trajectories select[aria-label=Outcome]")
    browser.evaluate("""(select => { select.value = "success"; select.dispatchEvent(new Event("change")); })(
        document.querySelector("#view-trajectories select[aria-label=Outcome]"))""")
    browser.press("j")
    browser.wait("location.hash.startsWith('#iter-') && document.querySelector('.player .controls input') !== null")
    browser.pointer("#view-trajectories .controls input")
    step = browser.evaluate("location.hash")
    browser.press("ArrowLeft")
    assert browser.evaluate("location.hash") != step
    browser.press("4")
    view(browser, "groups", "#view-groups .chip")
    browser.pointer("#view-groups .chip:nth-child(2)")
    browser.press("j", "Enter")
    browser.wait("location.hash.startsWith('#group/')")


def test_a_step_shows_action_thought_and_log_probabilities(page, browser):
    browser.open(page + "#iter-000003/4/1")
    view(browser, "trajectories", ".player .phone img")
    text = browser.text(".player")
    assert "tap(x=500, y=200)" in text and "Button “Save”" in text and "The list is open." in text
    assert re.search(r"Advantage\s+[+−]0\.50", text) and re.search(r"-\d+\.\d+ in all, -\d", text)
    assert browser.count(".player .stage circle.ink") == 1 and browser.count(".player .stage rect.box") == 1
    assert browser.count(".player .bars rect") >= 5
    (x,), (y,) = [browser.each(".player .stage circle.ink", f"{name}.baseVal.value") for name in ("cx", "cy")]
    assert (x, y) == pytest.approx((500 * 90 / 999, 200 * 180 / 999))


def test_a_step_shows_the_prompt_and_the_elements_once_they_are_opened(page, browser):
    browser.open(page + "#iter-000003/4/1")
    view(browser, "trajectories", ".player .phone img")
    assert not [url for url in browser.requests if "-input" in url]
    browser.click(".given:nth-of-type(1) summary")
    browser.wait("document.querySelector('.given pre') !== null")
    assert browser.text(".given pre") == f"<|user|> The list is {EVIL} milk"
    browser.evaluate("document.querySelector('.given:nth-of-type(2)').open = true")
    browser.wait("document.querySelector('.given tbody tr') !== null")
    rows = browser.each(".given tbody tr", "innerText")
    assert len(rows) == 4 and "“Save”" in rows[0] and "click" in rows[0] and "“< b>milk”" in rows[1]
    boxes = browser.count(".player .stage rect.box")
    browser.evaluate("document.querySelectorAll('.given tbody tr')[1].focus()")
    assert browser.count(".player .stage rect.box") == boxes + 1
    browser.press("ArrowRight")
    browser.wait("document.querySelector('.given pre') !== null")  # it stays open from step to step


def test_the_replay_buffer_lists_advantage_and_age(page, browser):
    browser.open(page + "#replay")
    view(browser, "replay", ".replayrow.vrow")
    assert "30 of 30 episodes, after iteration 16" in browser.text("#view-replay .filters")
    cells = browser.text("#view-replay .replayrow.vrow:nth-child(3)").split("\n")
    assert cells[2:] == ["+0.85", "50.0%", "2", "iteration 14", "1", cells[-1]]
    browser.press("j", "Enter")
    browser.wait("location.hash === '#replay-000016/0/0' && document.querySelector('.player .phone') !== null")
    browser.press("u")
    browser.wait("currentName === 'replay'")


def test_long_lists_only_create_visible_rows(page, browser):
    browser.open(page + "#trajectories")
    view(browser, "trajectories", ".vrow.row")
    assert "2,048 of 2,048" in browser.text("#view-trajectories .filters")
    assert browser.count(".vrow.row") < 60
    browser.evaluate("document.querySelector('#view-trajectories .vlist').scrollTop = 66 * 2040")
    browser.wait("document.querySelector('.vrow.row:last-child').innerText.includes('iteration 1')")
    assert browser.count(".vrow.row") < 60
    loaded = [url for url in browser.requests if "-part" in url]
    assert loaded == []  # no trajectory's steps before one is opened


def test_a_hostile_trajectory_stays_text(page, browser):
    browser.open(page + "#iter-000001/0/1")
    view(browser, "trajectories", ".player .phone img")
    assert browser.text(".player").count(EVIL.strip()) >= 4  # instruction, error, thought, response, element
    sources = browser.each("img", "attributes.src.value")
    assert all(re.fullmatch(r"\.\./screens/[0-9a-f]{64}\.png", source) for source in sources)
    assert browser.count("script:not([type])") == 1  # data scripts remove themselves


def test_runs_are_compared_curve_by_curve_and_instance_by_instance(page, browser):
    browser.open(page + "#diff")
    browser.wait("document.querySelectorAll('#view-diff .suite').length === 1")
    colors = browser.each("#view-diff .chart:first-child path", "style.stroke")
    assert len(set(colors)) == 4 and browser.count("#view-diff .forest .dot") == 8
    assert browser.count("#view-diff .suite details") == 6
    browser.evaluate("document.querySelector('#view-diff .suite details').open = true")
    browser.wait("document.querySelectorAll('#view-diff .pairs tr').length > 1")
    said = browser.text("#view-diff .suite summary")
    won, lost, both, neither = map(int, re.findall(r"\d+", said))
    assert won + lost + both + neither == 60
    assert browser.count("#view-diff .pairs tbody tr") == won
    links = browser.each("#view-diff .pairs a", "hash")
    assert any(link.startswith("#b:iter-") for link in links) and any(link.startswith("#iter-") for link in links)


def test_the_overview_says_what_was_trained_and_shows_the_held_out_curve_first(page, browser):
    browser.open(page)
    view(browser, "overview", "#view-overview .chart")
    head = browser.text("#view-overview .about")
    assert re.search(r"Algorithm\s+gigpo\s+Suite\s+phone\s+Seed\s+0", head) and EVIL.strip()[-20:] in head
    assert re.search(r"2 settings differ.*algorithm\s+type\s+gigpo\s+learning_rate\s+0.00001", head, re.S)
    assert f"{datetime.now(UTC):%b %Y}" in head
    assert browser.text("#view-overview .command") == "mobilerl train --config adagrpo"
    titles = browser.each("#view-overview > .charts .title", "innerText")
    assert titles[:4] == [
        "Held-out success rate",
        "Success rate of training episodes",
        "-log p of sampled tokens",
        "Loss",
    ]
    drawn = browser.each("#view-overview .chart:first-child figcaption + svg path", "attributes.d.value")[0]
    assert drawn.count("L") == 3, "evaluations of every fifth iteration are joined"


@pytest.mark.parametrize("tab", ["overview", "diff"])
def test_curves_count_iterations_steps_or_minutes(page, browser, tab):
    def highest() -> str:
        return browser.each(f"#view-{tab} .chart:nth-child(3) svg > text", "textContent")[-1]

    browser.open(f"{page}#{tab}")
    view(browser, tab, f"#view-{tab} .segments")
    assert highest() == "15"
    browser.pointer(f"#view-{tab} .segments button:nth-child(2)")
    browser.wait(f"location.hash === '#{tab}?x=steps' && document.querySelectorAll('#view-{tab}').length === 1")
    assert highest() == "10K"
    box = browser.evaluate(f"document.querySelector('#view-{tab} .chart svg').getBoundingClientRect().toJSON()")
    browser.move(box["x"] + box["width"] / 2, box["y"] + 40)
    browser.wait(f"document.querySelector('#view-{tab} .chart:nth-child(2) .title').innerText.includes(' steps')")
    browser.open(f"{page}#{tab}?x=minutes")
    browser.wait(f"document.querySelectorAll('#view-{tab} .segments [aria-pressed=true]').length === 1")
    browser.wait(f"document.querySelector('#view-{tab} .segments [aria-pressed=true]').innerText === 'Minutes'")
    assert float(highest()) <= 16


def test_captions_of_a_group_are_not_cut(page, browser):
    browser.open(page + "#group/iter-000002/3")
    browser.wait(f"document.querySelector('.lane .thumb img') !== null && {LOADED}")
    cut = "[...document.querySelectorAll('.words, .lanehead > *')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert "long press Save" in "".join(browser.each(".words", "innerText"))
    assert browser.evaluate(f"{cut}.map((e) => e.innerText)") == []


def test_panes_of_the_difference_have_something_in_them(page, browser):
    browser.open(page + "#diff")
    browser.wait("document.querySelectorAll('#view-diff .pairs tbody tr').length > 0")
    folds = browser.each("#view-diff > div > details", "open")
    assert folds == [True] and browser.count("#view-diff .suite details[open]") == 1
    assert "learning_rate" in browser.text("#view-diff .runs") and "0.00002" in browser.text("#view-diff .runs")
    same = "Object.assign(DATA.pairs.between[1].counts, { won: 0, lost: 0 })"
    first = "pairPanel('between', 1, RUNS.slice(0, 2)).querySelector('[aria-pressed=true]').className"
    assert browser.evaluate(f"({same}, {first})").split() == ["chip", "both"]


def test_the_loss_of_each_sft_stage_has_a_curve_of_its_own(browser, tmp_path):
    with Tracker(tmp_path / "sft") as tracker:
        for stage, first in (("stage1", 0), ("stage2-round1", 40)):
            for step in range(20, 80, 20):
                tracker.log({"iteration": first + step, "stage": stage, "sft/loss": 10 / step})
    browser.errors.clear()
    browser.open(build(tmp_path / "sft").as_uri())
    view(browser, "overview", "#view-overview .chart")
    titles = browser.each("#view-overview .chart .title", "innerText")
    assert titles == ["SFT loss, stage1", "SFT loss, stage2-round1"] and browser.errors == []


def test_the_served_page_shows_new_iterations_and_keeps_its_place(runs, browser):
    run, other = runs
    with make_server(run, [other], "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        browser.errors.clear()
        browser.open(address + "#b:iter-000002/3/1")
        browser.wait(f"document.querySelector('.player .phone img') !== null && {LOADED}")
        assert browser.errors == []
        browser.open(address + "#trajectories")
        view(browser, "trajectories", ".vrow.row")
        browser.evaluate("document.querySelector('#view-trajectories select[aria-label=Outcome]').value = 'success'")
        browser.evaluate(f"document.querySelector('#view-trajectories select[aria-label=Outcome]').{CHANGED}")
        browser.evaluate("document.querySelector('#view-trajectories .vlist').scrollTop = 660")
        before = browser.text("#view-trajectories .count")
        save_trajectories(run, 17, [episode("new-0", made_task(70), True, random.Random(0), "avd-0")])
        browser.wait(f"document.querySelector('#view-trajectories .count').innerText !== {before!r}")
        assert "of 2,049" in browser.text("#view-trajectories .count")
        assert (
            browser.evaluate("document.querySelector('#view-trajectories select[aria-label=Outcome]').value")
            == "success"
        )
        assert browser.evaluate("document.querySelector('#view-trajectories .vlist').scrollTop") == 660
        assert browser.text("#live") == "live" and browser.errors == []
        browser.open(address + "#iter-000017/0/0")
        browser.wait("document.querySelector('.player .phone') !== null")
        server.shutdown()
