"""The viewer's page: its data and its safety."""

import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from source_files import png
from status_records import group, record
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.cli import main
from mobilerl.config import Recipe, save_recipe
from mobilerl.envs.base import Back, Finish, Observation, Swipe, Tap, Task, Type
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.policy.screen import parse_screen
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.records.files import save_trajectories, trajectory_to_dict
from mobilerl.records.screens import MemoryScreens
from mobilerl.training.run_log import RunLog, StatusLog, write_advantages
from mobilerl.training.tracking import Tracker
from mobilerl.viewer import build
from mobilerl.viewer.serve import file_for, is_allowed_host, make_server
from mobilerl.viewer.steps import step_for_page, touched_element

EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--<script>document.title='owned'</script>"
ACTIONS = (Tap(10, 20), Swipe(1, 2, 3, 4), Type(EVIL), Back(), Finish(EVIL))


def trajectory(name: str, reward: float, status: Status = Status.FINISHED, text: str = "fine") -> Trajectory:
    steps = tuple(
        Step(
            Observation(png(i, 9, 20), 9, 20, "<x/>", text, i),
            Completion((1, 2, 3), (4, 5), (-0.5, -1.0), 7, text),
            (png(i, 9, 20),),
            text,
            action,
            {"policy": 0.5},
            f"no app {text}" if isinstance(action, Back) else "",
        )
        for i, action in enumerate(ACTIONS)
    )
    task = Task(f"clock-{name[0]}", "clock", text, {}, 0, 10, "sim", "Clock")
    return Trajectory(name, task, steps, reward, status, "phone-0", text, 3.0)


def evaluation(folder, wins: set[int]) -> None:
    episodes = [EpisodeResult(f"t-{i}", "t", "Clock", True, "test", 0, 0.0, i in wins, 3, "finished") for i in range(4)]
    write_results(folder / "results.json", build_results("sim", {"model": EVIL}, episodes))


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "demo"
    with Tracker(run) as tracker:
        for i in range(3):
            tracker.log({"iteration": i, "rollout/success_rate": i / 4, "train/kl": float("nan"), EVIL: 1})
    save_trajectories(run, 1, [trajectory("a-0", 1.0), trajectory("a-1", 0.0)])
    later = [trajectory("b-0", 0.0, Status.INFRA_ERROR, EVIL), trajectory("c-0", 1.0), trajectory("c-1", 0.0)]
    save_trajectories(run, 2, later)
    evaluation(run / "eval" / "sim-after", {0, 1, 2})
    evaluation(run / "eval" / "sim-before", {2, 3})
    return run


class Page(HTMLParser):
    """The elements of a page as a browser would parse them, and the text of its scripts."""

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


def page_of(run, *against) -> Page:
    return Page(build(run, against).read_text())


def loaded(run, name: str):
    """The value that the page receives when it loads `view/<name>.js`."""
    script = (run / "view" / f"{name}.js").read_text()
    return json.loads(re.fullmatch(rf'receive\("{name}",(.*)\);\n', script)[1])


def test_the_head_names_the_settings_that_differ_and_keeps_secrets(run):
    recipe = Recipe(
        model="runs/sft",
        algorithm={"type": "gigpo", "group_size": 3},
        fleet={"type": "docker", "environment": ["TOKEN=s3cret"]},
        train={"seed": 4},
    )
    save_recipe(recipe, run / "config.json")
    about = page_of(run).data["runs"][0]["about"]
    assert {name: about[name] for name in ("model", "algorithm", "suite", "seed")} == {
        "model": "runs/sft",
        "algorithm": "gigpo",
        "suite": "phone",
        "seed": 4,
    }
    assert about["settings"] == [
        ["fleet.type", "docker", "embedded"],
        ["fleet.environment", ["TOKEN=***"], []],
        ["algorithm.type", "gigpo", "adagrpo"],
        ["algorithm.group_size", 3, type(recipe.algorithm).model_fields["group_size"].default],
    ]
    (run / "config.json").write_text("{")
    about = page_of(run).data["runs"][0]["about"]
    assert "config.json" in about["reason"] and len(about["starts"]) == 1


def test_page_holds_metrics_trajectories_and_steps(run):
    write_advantages(run, 1, [trajectory("a-1", 0.0)], [[0.1, 0.2, 0.3, 0.4, -0.5]])
    (data,) = page_of(run).data["runs"]
    assert data["metrics"]["iteration"] == [0, 1, 2] and data["metrics"]["rollout/success_rate"] == [0, 0.25, 0.5]
    assert (data["trajectories"], data["outcomes"]) == (5, {"infra_error": 1, "success": 2, "finished": 2})
    index = loaded(run, "data/index")
    assert [row[3] for row in index["rows"]] == ["infra_error", "success", "finished", "success", "finished"]
    assert index["tasks"][index["rows"][1][2]]["id"] == "clock-c"
    first, second = loaded(run, "data/iter-000001-part0")
    steps = first["steps"]
    assert all((run / "screens" / f"{s['screen']}.png").is_file() for s in steps)
    assert steps[0]["action"] == {"kind": "tap", "x": 10, "y": 20}
    assert (steps[0]["prompt_tokens"], steps[0]["logprob"], steps[0]["logprobs"]) == (3, -1.5, [-0.5, -1.0])
    assert steps[3]["note"] == "no app fine" and steps[0]["advantage"] is None
    assert [s["advantage"] for s in second["steps"]] == [0.1, 0.2, 0.3, 0.4, -0.5]


def test_the_touched_element_is_the_smallest_operable_one():
    xml = """<h><node class="a.Frame" bounds="[0,0][100,200]">
    <node class="a.Row" clickable="true" bounds="[0,0][100,40]">
    <node class="a.TextView" text="Save" bounds="[10,10][30,30]"/></node>
    <node class="a.EditText" text="milk" focused="true" bounds="[0,100][100,120]"/></node></h>"""
    screen = parse_screen(xml, 100, 200)
    element = touched_element(screen, {"kind": "tap", "x": 200, "y": 100})
    assert (element["class"], element["text"], element["box"]) == ("Row", "Save", [0, 0, 100, 40])
    assert touched_element(screen, {"kind": "tap", "x": 999, "y": 999}) is None
    assert touched_element(screen, {"kind": "type", "text": "x"})["text"] == "milk"
    assert touched_element(screen, {"kind": "home"}) is None
    entities = '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'
    assert touched_element(parse_screen(entities, 100, 200), {"kind": "tap", "x": 1, "y": 1}) is None


def test_evaluations_are_compared_in_pairs(run):
    (found,) = page_of(run).data["pairs"]["within"]
    assert (found["before"], found["after"], found["difference"]) == ("sim-before", "sim-after", 0.25)
    assert found["counts"] == {"won": 2, "lost": 1, "both": 1, "neither": 0}
    (rows,) = [pair["rows"] for pair in loaded(run, "data/pairs")["within"]]
    assert rows[3] == ["t-3", "t", [1, 1], [0, 1], "lost"]


def test_a_folder_of_evaluations_is_shown_like_a_run(run):
    save_trajectories(run / "eval" / "sim-after", 0, [trajectory("t-0", 1.0)])
    (alone,) = page_of(run / "eval" / "sim-after").data["runs"]
    assert [e["name"] for e in alone["evaluations"]] == ["sim-after"]
    (source,) = loaded(run / "eval" / "sim-after", "data/index")["sources"]
    assert (source["label"], source["number"], source["screens"]) == ("sim-after", None, "screens")
    (both,) = page_of(run / "eval").data["runs"]
    assert [e["name"] for e in both["evaluations"]] == ["sim-before", "sim-after"]
    assert [s["screens"] for s in loaded(run / "eval", "data/index")["sources"]] == ["sim-after/screens"]


def checkpoint(run: Path, iteration: int) -> Path:
    """A checkpoint with a replay buffer of two trajectories, and a tokenizer of the prompts of `trajectory`."""
    folder = run / "checkpoints" / f"iter-{iteration:06d}"
    folder.mkdir(parents=True)
    lines = [json.dumps(trajectory_to_dict(trajectory(n, 1.0), MemoryScreens())) + "\n" for n in ("a-1", "c-0")]
    (folder / "replay.jsonl").write_text("".join(lines))
    entries = [{"advantage": 0.5, "iteration": 1, "rarity": 0.75}, {"advantage": 0.25, "iteration": 2}]
    (folder / "state.json").write_text(json.dumps({"replay": {"iteration": 2, "entries": entries}}))
    Tokenizer(WordLevel({"": 0, "<user>": 1, EVIL: 2, "milk": 3}, unk_token="milk")).save(
        str(folder / "tokenizer.json")
    )
    return folder


def test_the_replay_buffer_of_the_newest_checkpoint_is_shown(run):
    checkpoint(run, 1)
    newest = checkpoint(run, 2)
    assert page_of(run).data["runs"][0]["replay"] == {"iteration": 2, "size": 2}
    replay = loaded(run, "data/replay")
    assert (
        replay["entries"] == [[1, 0.5, 0.75], [2, 0.25, None]] and [row[1] for row in replay["rows"]] == ["success"] * 2
    )
    assert replay["source"]["screens"] == "checkpoints/iter-000002/screens"
    assert len(loaded(run, "data/replay-000002-part0")) == 2
    (newest / "replay.jsonl").write_text("")
    with pytest.raises(ValueError, match="replay.jsonl has 0 trajectories"):
        build(run)


def test_prompts_are_decoded_with_the_tokenizer_of_a_checkpoint(run):
    build(run)
    assert loaded(run, "data/iter-000001-input0")[0][0] == {"prompt": None, "elements": [], "unreadable": ""}
    checkpoint(run, 1)
    build(run)
    assert loaded(run, "data/iter-000001-input0")[0][0]["prompt"] == f"<user> {EVIL} milk"


def test_a_prompt_counts_the_placeholders_of_an_image():
    step = trajectory_to_dict(trajectory("a-0", 1.0), MemoryScreens())["steps"][0]
    prompt = "<|user|><|image|><|image|><|image|><|image|><|image|> go go go go go"
    _, given = step_for_page(step, None, lambda ids: prompt)
    assert given["prompt"] == "<|user|><|image|>×5 go go go go go"


def test_shaped_rewards_and_success_by_app(run):
    RunLog(Recipe(), run).trajectories(3, [group("a", 1, 1)], {"a-0": 0.5, "a-1": -0.5}, {"a-0": 1.0, "a-1": 0.5})
    record(StatusLog(run), FailureCurriculum(["a"]), 3, group("a", 1, 0))
    record(StatusLog(run), FailureCurriculum(["a"]), 4)
    (data,) = page_of(run).data["runs"]
    assert data["apps"] == {"iteration": [3, 4], "apps": {"Clock": [0.5, None]}}
    assert [t["shaped_reward"] for t in loaded(run, "data/iter-000003-part0")] == [1.0, 0.5]
    assert [t["shaped_reward"] for t in loaded(run, "data/iter-000002-part0")] == [None] * 3
    assert [path.name for path in (run / "shaped_rewards").iterdir()] == ["iter-000003.json"]
    RunLog(Recipe(), run).truncate_after(2)  # a resumed run
    assert not list((run / "shaped_rewards").iterdir()) and not list((run / "advantages").iterdir())


def test_the_page_is_only_built_again_when_a_file_has_changed(run):
    cache: dict = {}
    page = build(run, cache=cache)
    page.write_text("unchanged")
    assert build(run, cache=cache).read_text() == "unchanged"
    version = loaded(run, "data/version")
    save_trajectories(run, 3, [trajectory("d-0", 1.0)])
    assert build(run, cache=cache).read_text() != "unchanged"
    assert loaded(run, "data/version") != version
    assert loaded(run, "data/version") == loaded(run, "data/page")["version"]


def test_two_runs_are_compared_by_their_evaluations_of_the_same_name(run, tmp_path):
    other = tmp_path / "folder #2" / "other"
    save_trajectories(other, 1, [trajectory("a-0", 0.0)])
    evaluation(other / "eval" / "sim-after", set())
    data = page_of(run, other).data
    assert data["runs"][1]["root"] == "../../folder%20%232/other/"
    (found,) = data["pairs"]["between"]
    assert (found["difference"], found["counts"]["won"]) == (0.75, 3)
    assert len(loaded(run, "against-1/iter-000001-part0")) == 1
    assert not (other / "view").exists()


def test_model_output_stays_text_and_the_page_runs_only_its_own_script(run):
    page = page_of(run)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert len(page.scripts) == 2  # the data and the page's own
    for file in (run / "view" / "data").glob("*.js"):
        assert not re.search(r"[<>&]", file.read_text())
    assert loaded(run, "data/iter-000002-part0")[0]["steps"][0]["thought"] == EVIL
    assert not [a for tag, a in page.tags if tag == "link" or "src" in a]
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "http" not in policy and "script-src 'sha256-" in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page.scripts[1])


def test_the_server_only_serves_the_page_and_its_screens(run, tmp_path):
    other, screen = tmp_path / "other", "0" * 64 + ".png"
    served = {
        "/": run / "view/index.html",
        "/data/iter-000001-part0.js": run / "view/data/iter-000001-part0.js",
        f"/screens/{screen}": run / "screens" / screen,
        f"/against-1/screens/{screen}": other / "screens" / screen,
        f"/eval/sim/screens/{screen}": run / "eval/sim/screens" / screen,
    }
    assert {path: file_for(path, run, [other]) for path in served} == served
    refused = (
        "/config.json",
        "/data/../index.html",
        f"/eval/../../screens/{screen}",
        "/view/index.html",
        f"/screens/../screens/{screen}",
        "/data/index.js\n",
    )
    assert [file_for(path, run, [other]) for path in refused] == [None] * len(refused)
    assert file_for(f"/against-1/screens/{screen}", run, []) is None
    (run / "screens" / screen).symlink_to("/etc/passwd")
    assert file_for(f"/screens/{screen}", run, []) is None, "a link leads out of the run"


def test_what_came_with_a_run_is_neither_run_nor_written_through(run, tmp_path):
    build(run)
    shipped, kept = run / "view/data/iter-000001-part0.js", tmp_path / "kept"
    ours = shipped.read_text()
    shipped.write_text("alert(1)")
    (run / "view/data/more.js").write_text("alert(2)")
    build(run)
    assert shipped.read_text() == ours and not (run / "view/data/more.js").exists()
    kept.mkdir()
    shutil.rmtree(run / "view")
    (run / "view").symlink_to(kept)
    with pytest.raises(ValueError, match="view is a link"):
        build(run)
    assert not list(kept.iterdir())


@contextmanager
def served(run: Path) -> Iterator[int]:
    """The port of a server of the run."""
    with make_server(run, [], "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def get(port: int, *headers: tuple[str, str], path: str = "/") -> tuple[int, str, Mapping[str, str]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    for header in headers:
        connection.putheader(*header)
    connection.endheaders()
    with closing(connection):
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers


def test_the_server_rejects_foreign_host_headers(run):
    """DNS rebinding: a page of another origin can point its own name to 127.0.0.1, but cannot choose another Host."""
    with served(run) as port:
        for host in (f"127.0.0.1:{port}", "LOCALHOST:9000"):
            assert get(port, ("Host", host))[0] == 200, host
        for host in (f"evil.example:{port}", "127.0.0.1.evil.example", "evil@localhost"):
            status, text, _ = get(port, ("Host", host))
            assert status == 421 and "demo" not in text and "--host" in text, host
        assert get(port)[0] == 421
        assert get(port, ("Host", "localhost"), ("Host", "evil.example"))[0] == 421
    assert is_allowed_host("Gpu-7.lab:8642", "gpu-7.lab", "10.0.0.5")
    assert not is_allowed_host("evil.example", "0.0.0.0", "0.0.0.0")


def test_other_pages_cannot_include_the_data_as_a_script(run):
    here = ("Host", "localhost")
    with served(run) as port:
        assert get(port, here)[0] == 200  # writes the data
        status, text, headers = get(port, here, ("Sec-Fetch-Site", "same-origin"), path="/data/index.js")
        assert status == 200 and "receive(" in text and headers["Cross-Origin-Resource-Policy"] == "same-origin"
        for site in ("cross-site", "same-site"):
            assert get(port, here, ("Sec-Fetch-Site", site), path="/data/index.js")[0] == 403
            assert get(port, here, ("Sec-Fetch-Site", site))[0] == 200, "a link to the page works"


def test_idle_connections_cost_a_bounded_number_of_threads(run, monkeypatch):
    monkeypatch.setattr("mobilerl.viewer.serve.CONNECTIONS", 8)
    monkeypatch.setattr("mobilerl.viewer.serve._Handler.timeout", 2.0)
    with served(run) as port, ExitStack() as idle:
        before = threading.active_count()
        for _ in range(40):
            idle.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        until = time.monotonic() + 120
        while True:  # once the idle ones have timed out, others are served again
            assert threading.active_count() <= before + 8 and time.monotonic() < until
            try:
                assert get(port, ("Host", "localhost"))[0] == 200
                break
            except (OSError, HTTPException):
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no such run directory"),
        (["empty"], "no run"),
        (["demo", "--against", "demo"], "the run itself"),
        (["demo", "--against", *(f"demo/{i}" for i in "abcd")], "at most 3"),
        (["demo", "--serve", "--port", "99999"], "cannot listen"),
    ],
)
def test_bad_arguments_are_one_line(run, tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in "abcd":
        save_trajectories(run / name, 1, [])
    assert main(["view", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_damaged_file_is_named(run):
    (run / "tasks.jsonl").write_text('{"iteration": 1, "states": {"a": "active"}}\n')
    with pytest.raises(ValueError, match="tasks.jsonl: not in the format"):
        build(run)
