"""The viewer in a real Chromium: every view and every key, on a run of more than 2,000 trajectories."""

import json
import random
import re
import threading
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest
from viewer_browser import CHROMIUM, Browser
from viewer_run import EVIL, episode, made_task, make_episodes, make_evaluation, make_run

from mobilerl.trajectory_files import save_trajectories
from mobilerl.viewer import build
from mobilerl.viewer.serve import make_server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

TABS = ["overview", "tasks", "fleet", "groups", "trajectories", "evaluations", "diff"]
LOADED = """Boolean(sections.get(currentName)) && [...document.images].every((image) => {
    const { top, width } = image.getBoundingClientRect();  // those out of sight are loaded when they come into it
    return top > innerHeight || !width || (image.complete && image.naturalWidth > 0);
})"""
HOSTILE = "Template0/0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    run, other = make_run(folder / "big"), make_run(folder / "other", iterations=3, seed=1)
    build(run, other)
    return run, other


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(runs, browser):
    """The address of the page. After the test: nothing was complained about, and nothing came from elsewhere."""
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


def test_the_first_paint_of_two_thousand_trajectories_takes_less_than_a_second(page, browser):
    paint = "performance.getEntriesByName('first-contentful-paint')"
    for _ in range(10):  # the best of ten: this machine may be busy
        browser.open(page)
        browser.wait(f"{paint}.length > 0")
        if (first := browser.evaluate(f"{paint}[0].startTime")) < 1000:
            break
    assert browser.text(".tile:last-child .value") == "2,048"
    assert first < 1000


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_is_drawn_without_a_complaint(page, browser, width, dark):
    browser.size(width, 860)
    browser.dark(dark)
    wanted = {
        "overview": ".chart.wide path", "tasks": ".taskrow canvas", "fleet": ".devicerow canvas",
        "groups": ".grouprow .squares", "trajectories": ".vrow.row", "evaluations": ".forest .dot",
        "diff": ".charts path",
    }  # fmt: skip
    browser.open(page)
    for tab in TABS:
        browser.click(f'nav a[href="#{tab}"]')
        view(browser, tab, f"#view-{tab} {wanted[tab]}")
        shown = browser.evaluate("[...document.querySelectorAll('.view')].filter((v) => !v.hidden).map((v) => v.id)")
        assert shown == [f"view-{tab}"]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, tab
    for link, selector in (
        ("iter-000002/3/1", ".player .phone img"), ("group/iter-000002/3", ".lane .thumb img"),
        ("diff/" + quote(f"sim/{HOSTILE}", safe=""), ".lane .thumb img"), ("b:iter-000002/3/1", ".player .phone img"),
    ):  # fmt: skip
        browser.open(f"{page}#{link}")
        browser.wait(f"document.querySelector({selector!r}) !== null && {LOADED}")


def test_the_overview_holds_the_curves_of_the_run(page, browser):
    browser.open(page)
    titles = browser.each("#view-overview .chart .title", "firstChild.data")
    wanted = {"Success rate", "Episode length (steps)", "Staleness (versions)", "Replay size", "Curriculum (tasks)"}
    assert wanted <= set(titles)
    assert EVIL in titles  # a metric of that name


def test_the_task_board_says_which_tasks_are_in_which_state_and_since_when(page, browser):
    browser.open(page + "#tasks")
    browser.wait("document.querySelector('#view-tasks .taskrow canvas') !== null")
    chips = [browser.each("#view-tasks .chip", part) for part in ("firstChild.data", "lastChild.textContent")]
    counts = {state: int(count) for state, count in zip(*chips, strict=True)}
    assert counts["every"] == 60 == sum(n for state, n in counts.items() if state != "every")
    assert counts["removed"] > 0 and counts["solved"] > 0
    browser.click("#view-tasks .chip.removed")
    browser.press("j", "j")
    said = browser.text("#view-tasks .side")
    assert re.search(r"removed since iteration \d+\n.*active since iteration 1", said, re.S)
    assert browser.evaluate("location.hash").startswith("#tasks/sim%2FTemplate")


def test_the_fleet_board_shows_every_device_with_its_faults(page, browser):
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


def test_a_step_shows_what_was_done_and_thought_and_how_likely_it_was(page, browser):
    browser.open(page + "#iter-000003/4/1")
    view(browser, "trajectories", ".player .phone img")
    text = browser.text(".player")
    assert "tap(x=500, y=200)" in text and "Button “Save”" in text and "The list is open." in text
    assert re.search(r"Advantage\s+[+−]0\.50", text) and re.search(r"-\d+\.\d+ in all, -\d", text)
    assert browser.count(".player .stage circle.ink") == 1 and browser.count(".player .stage rect.box") == 1
    assert browser.count(".player .bars rect") >= 5
    (x,), (y,) = [browser.each(".player .stage circle.ink", f"{name}.baseVal.value") for name in ("cx", "cy")]
    assert (x, y) == pytest.approx((500 * 90 / 999, 200 * 180 / 999))


def test_only_the_rows_in_sight_of_thousands_exist(page, browser):
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
    assert browser.text(".player").count(EVIL.strip()) >= 4  # instruction, error, thought, reply, element
    sources = browser.each("img", "attributes.src.value")
    assert all(re.fullmatch(r"\.\./screens/[0-9a-f]{64}\.png", source) for source in sources)
    assert browser.count("script:not([type])") == 1  # those of the data are gone once they have run


def test_two_runs_are_compared_instance_by_instance(page, browser):
    browser.open(page + "#diff")
    browser.wait("document.querySelectorAll('#view-diff .suite').length === 2")
    browser.evaluate("document.querySelector('#view-diff .suite details').open = true")
    browser.wait("document.querySelectorAll('#view-diff .pairs tr').length > 1")
    said = browser.text("#view-diff .suite summary")
    won, lost, both, neither = map(int, re.findall(r"\d+", said))
    assert won + lost + both + neither == 60
    assert browser.count("#view-diff .pairs tbody tr") == won
    links = browser.each("#view-diff .pairs a", "hash")
    assert any(link.startswith("#b:iter-") for link in links) and any(link.startswith("#iter-") for link in links)


# --- evaluations that kept their episodes ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The page of a run that trained on tasks 0 and 1 and was evaluated on 0 to 2, compared with one that did worse."""
    folder = tmp_path_factory.mktemp("evaluated")
    run, other = folder / "run", folder / "other"
    tasks = [made_task(i) for i in range(3)]
    save_trajectories(run, 1, make_episodes(tasks[:2], success=True))
    save_trajectories(other, 1, make_episodes(tasks[:1], success=False))
    make_evaluation(run, "sim-before", tasks, success=False, keep=False)
    make_evaluation(run, "pass-k", tasks, success=True, trials=2)
    make_evaluation(run, "sim-after", tasks, success=True)
    for name in ("sim-before", "sim-after"):
        make_evaluation(other, name, tasks, success=False)
    return build(run, other).as_uri()


def linked(browser, card):
    """By row of a panel's open kind: of what its links lead to, "" where there is none."""
    rows = f"{card} .pairs tbody tr"
    browser.evaluate(f"document.querySelector({card + ' details'!r}).open = true")
    browser.wait(f"document.querySelectorAll({rows!r}).length > 0")
    cells = (
        "[...row.querySelectorAll('.num')].map((c) => (c.querySelector('a')?.title || '').replace('stored of ', ''))"
    )
    return browser.evaluate(f"[...document.querySelectorAll({rows!r})].map((row) => {cells})")


def test_an_instance_links_to_the_very_evaluation_or_to_training(evaluated, browser):
    browser.open(evaluated + "#evaluations")
    browser.wait("currentName === 'evaluations' && document.querySelector('#view-evaluations .pairs') !== null")
    assert linked(browser, "#view-evaluations .suite") == [["iteration 1", "sim-after"]] * 2 + [["", "sim-after"]]
    browser.open(evaluated + "#diff")
    browser.wait("document.querySelectorAll('#view-diff .suite').length === 2")
    before, after = "#view-diff h2 + .suite", "#view-diff .suite + .suite"
    browser.click(f"{before} .chip.neither")  # neither run solved one of them before
    assert linked(browser, before) == [["sim-before", "iteration 1"]] * 2 + [["sim-before", ""]]
    assert linked(browser, after) == [["sim-after", "sim-after"]] * 3


def test_tasks_of_two_runs_are_compared_by_their_training_alone(evaluated, browser):
    browser.open(evaluated + "#diff")
    browser.wait("document.querySelector('#view-diff .scroll.tall tbody tr') !== null")
    cells = browser.each("#view-diff .scroll.tall tbody td", "textContent")
    assert cells == ["sim/Template0/0", "Put item 0 on the list", "1/1 ▸", "0/1 ▸", "+100.0"]


def test_groups_of_two_evaluations_stay_apart_though_their_episodes_have_the_same_names(evaluated, browser):
    browser.errors.clear()
    browser.open(evaluated + "#groups")
    view(browser, "groups", ".grouprow.vrow")
    rows = browser.each("#view-groups .grouprow.vrow", "textContent")
    assert [row.split("Template")[0] for row in rows] == ["iteration 1"] * 2 + ["pass-k"] * 3 + ["sim-after"] * 3
    source = "document.querySelector('#view-groups select')"
    browser.evaluate(f"{source}.value = 'eval-001'; {source}.dispatchEvent(new Event('change'))")
    assert browser.count("#view-groups .grouprow.vrow") == 3
    for link, trials in (("eval-000/1", 2), ("eval-001/1", 1)):
        browser.open(f"{evaluated}#{link}")
        view(browser, "trajectories", ".player .phone img")
        browser.press("u")
        browser.wait(f"location.hash.startsWith('#group/') && document.querySelectorAll('.lane').length === {trials}")
    assert browser.errors == []


# --- sizes ---------------------------------------------------------------------------------------------------------


def write_tasks(run, rows):
    run.mkdir()
    (run / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return build(run).as_uri() + "#tasks"


def test_the_task_board_takes_more_numbers_than_a_call_takes_arguments(browser, tmp_path):
    tasks = [f"sim/{i}" for i in range(200)]
    rows = [
        {"iteration": i, "states": {t: "active" for t in tasks if i == 3}, "played": {t: [8, 4] for t in tasks}}
        for i in range(3, 1003)
    ]
    browser.errors.clear()
    browser.open(write_tasks(tmp_path / "long", rows))
    browser.wait("document.querySelector('#view-tasks .taskrow canvas') !== null")
    assert browser.each("#view-tasks .taskrow.head span:nth-child(3)", "textContent") == [
        "Success, iterations 3 to 1002"
    ]
    assert browser.errors == []


def test_a_task_board_without_an_episode_names_no_iterations(browser, tmp_path):
    browser.errors.clear()
    browser.open(write_tasks(tmp_path / "new", [{"iteration": 1, "states": {"sim/0": "active"}, "played": {}}]))
    browser.wait("document.querySelector('#view-tasks .taskrow.vrow') !== null")
    assert browser.each("#view-tasks .taskrow.head span:nth-child(3)", "textContent") == ["Success"]
    browser.press("j")
    assert "0 episodes" in browser.text("#view-tasks .side")
    assert browser.errors == []


# --- what is missing -----------------------------------------------------------------------------------------------


def test_what_is_not_there_is_said(page, browser, tmp_path):
    browser.open(page + "#iter-000999/0/0")
    browser.wait("document.querySelector('.player .empty') !== null")
    browser.open(page + "#group/iter-000999/0")
    browser.wait("document.querySelector('#view-groups .empty') !== null")


def test_an_empty_run_is_shown_in_every_view(browser, tmp_path):
    browser.errors.clear()
    (tmp_path / "none").mkdir()
    address = build(tmp_path / "none").as_uri()
    browser.open(address)
    for tab in TABS[:-1]:
        browser.click(f'nav a[href="#{tab}"]')
        browser.wait(f"document.querySelector('#view-{tab} .empty') !== null")
    assert browser.errors == []


def test_a_server_hands_out_the_pages_and_nothing_else(runs, browser):
    run, other = runs
    (run / "config.json").write_text("{}")
    with make_server(run, other, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        browser.errors.clear()
        for link in ("#iter-000002/3/1", "#b:iter-000002/3/1"):
            browser.open(address + link)
            browser.wait(f"document.querySelector('.player .phone img') !== null && {LOADED}")
        assert browser.errors == []
        for path in ("config.json", "../config.json", "%2e%2e/config.json", "metrics.jsonl", "data/../../config.json"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address + path)
        save_trajectories(run, 17, [episode("new-0", made_task(70), True, random.Random(0), "avd-0")])
        browser.open(address + "#iter-000017/0/0")
        browser.wait("document.querySelector('.player .phone') !== null")  # a reload shows what is new
        server.shutdown()
