import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from PIL import Image

from envs.base import Back, Finish, Observation, Swipe, Tap, Task, Type
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.train.tracking import Tracker
from mobilerl.trajectory_files import save_trajectories
from mobilerl.viewer import build

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--<script>document.title='owned'</script>"
ACTIONS = (Tap(10, 20), Swipe(1, 2, 3, 4), Type(EVIL), Back(), Finish(EVIL))


def png(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (9, 20), (shade, 0, 0)).save(out, "PNG")
    return out.getvalue()


def trajectory(name: str, reward: float, status: Status = Status.FINISHED, text: str = "fine") -> Trajectory:
    steps = tuple(
        Step(
            Observation(png(i), 9, 20, "<x/>", text, i),
            Completion((1, 2, 3), (4, 5), (-0.5, -1.0), 7, text),
            (png(i),),
            text,
            action,
            {"policy": 0.5},
        )
        for i, action in enumerate(ACTIONS)
    )
    task = Task(f"clock-{name}", "clock", text, {}, 0, 10, "sim", "Clock")
    return Trajectory(name, task, steps, reward, status, "phone-0", text, 3.0)


def evaluation(folder, wins: int, instances=4) -> None:
    episodes = [
        EpisodeResult(f"t-{i}", "t", "Clock", True, "test", 0, 0.0, i < wins, 3, "finished") for i in range(instances)
    ]
    write_results(folder / "results.json", build_results("sim", {"model": EVIL}, episodes))


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "demo"
    with Tracker(run) as tracker:
        for i in range(3):
            tracker.log({"iteration": i, "rollout/success_rate": i / 4, "train/kl": float("nan"), EVIL: 1})
    save_trajectories(run, 1, [trajectory("a", 1.0), trajectory("b", 0.0)])
    save_trajectories(
        run, 2, [trajectory("c", 0.0, Status.INFRA_ERROR, EVIL), trajectory("d", 1.0), trajectory("e", 0.0)]
    )
    evaluation(run / "eval" / "sim-after", 3)
    evaluation(run / "eval" / "sim-before", 1)
    return run


class Page(HTMLParser):
    """The elements of a page as a browser's parser would find them, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.lasttag == "script":
            self.scripts[-1] += data

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


def page_of(run) -> Page:
    path = build(run)
    assert path == run / "view" / "index.html"
    return Page(path.read_text())


def bodies_of(run, name: str) -> list[dict]:
    script = (run / "view" / "data" / f"{name}.js").read_text()
    return json.loads(re.fullmatch(r'receiveTrajectories\("[^"]+",(.*)\);\n', script)[1])


def test_the_page_holds_the_run(run):
    data = page_of(run).data
    assert [row["iteration"] for row in data["metrics"]] == [0, 1, 2]
    assert [(it["number"], it["total"]) for it in data["iterations"]] == [(2, 3), (1, 2)]  # newest first
    # [iteration, index, task, outcome, reward, steps]
    assert [(row[0], row[1], row[3]) for row in data["rows"]] == [
        (0, 0, "infra_error"),
        (0, 1, "success"),
        (0, 2, "finished"),
        (1, 0, "success"),
        (1, 1, "finished"),
    ]
    assert data["tasks"][data["rows"][1][2]]["id"] == "clock-d"


def test_steps_point_at_screens_that_are_there(run):
    build(run)
    steps = bodies_of(run, "iter-000001")[0]["steps"]
    assert len(steps) == len(ACTIONS)
    assert all((run / "view" / ".." / "screens" / f"{s['screen']}.png").is_file() for s in steps)
    assert steps[0]["action"] == {"kind": "tap", "x": 10, "y": 20}
    assert (steps[0]["prompt_tokens"], steps[0]["reply_tokens"], steps[0]["mean_logprob"]) == (3, 2, -0.75)


def test_evaluations_stand_side_by_side_with_their_paired_difference(run):
    data = page_of(run).data
    assert [e["name"] for e in data["evaluations"]] == ["sim-before", "sim-after"]
    assert all("instances" not in e for e in data["evaluations"])
    (found,) = data["differences"]
    assert (found["before"], found["after"], found["difference"]) == ("sim-before", "sim-after", 0.5)


def test_evaluations_of_other_instances_say_why_they_are_not_paired(run):
    evaluation(run / "eval" / "sim-after", 3, instances=5)
    (found,) = page_of(run).data["differences"]
    assert "not of the same instances" in found["reason"] and "difference" not in found


def test_what_a_model_wrote_stays_text(run):
    page = page_of(run)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert len(page.scripts) == 2  # the data and the page's own
    assert page.data["tasks"][0]["instruction"] == EVIL
    for file in (run / "view" / "data").iterdir():
        assert not re.search(r"[<>&]", file.read_text())
    assert bodies_of(run, "iter-000002")[0]["steps"][0]["thought"] == EVIL


def test_the_page_asks_nothing_of_the_network_and_runs_only_its_own_script(run):
    page = page_of(run)
    assert not [a for tag, a in page.tags if tag == "link" or "src" in a]
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "http" not in policy
    assert "script-src 'sha256-" in policy
    assert "innerHTML" not in page.scripts[1] and "insertAdjacentHTML" not in page.scripts[1]


def test_at_most_max_trajectories_of_an_iteration_are_embedded(run):
    data = Page(build(run, max_trajectories=1).read_text()).data
    assert [row[:2] for row in data["rows"]] == [[0, 0], [1, 0]]
    assert [it["total"] for it in data["iterations"]] == [3, 2]
    assert len(bodies_of(run, "iter-000002")) == 1


def test_an_empty_run_still_gives_a_page(tmp_path):
    data = page_of(tmp_path).data
    assert data["metrics"] == data["evaluations"] == data["rows"] == []


def test_a_line_without_its_fields_is_named(run):
    (run / "trajectories" / "iter-000001.jsonl").write_text('{"schema": 1, "id": "a"}\n')
    with pytest.raises(ValueError, match="iter-000001.jsonl, line 1: .*'task'"):
        build(run)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere: there is no such run directory"):
        build(tmp_path / "nowhere")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def dom(run, profile, link: str = "") -> str:
    """The page after a browser has run its scripts."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    command = [CHROMIUM, *flags, f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom"]
    address = (run / "view" / "index.html").resolve().as_uri() + link
    return subprocess.run([*command, address], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_curves_and_plays_a_hostile_trajectory(run, tmp_path):
    build(run)
    text = dom(run, tmp_path / "profile", "#iter-000002/0/2")
    page = Page(text)
    assert "<title>demo · mobilerl</title>" in text  # no injected script ran
    images = [a["src"] for tag, a in page.tags if tag == "img"]
    assert images and all(re.fullmatch(r"\.\./screens/[0-9a-f]{64}\.png", source) for source in images)
    assert "&lt;/script&gt;&lt;img src=x onerror=" in text
    assert "3 of 5" in text
    assert text.count('class="chart card"') == 2  # success rate, and the metric that has no chart of its own
    assert "+50.0 points" in text


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_an_empty_run(tmp_path):
    build(tmp_path)
    text = dom(tmp_path, tmp_path / "profile")
    for said in ("No iteration is finished yet", "No evaluation yet", "No trajectory was saved yet"):
        assert said in text
