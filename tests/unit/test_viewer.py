import io
import json
import re
import threading
from contextlib import closing
from html.parser import HTMLParser
from http.client import HTTPConnection
from socket import gethostname

import pytest
from PIL import Image

from envs.base import Back, Finish, Observation, Swipe, Tap, Task, Type
from mobilerl.cli import main
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.train.boards import write_advantages
from mobilerl.train.tracking import Tracker
from mobilerl.trajectory_files import save_trajectories
from mobilerl.viewer import build
from mobilerl.viewer.hits import element_hit
from mobilerl.viewer.serve import file_for, is_for_us, make_server
from mobilerl.viewer.steps import BARS, step_of

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
            f"no app {text}" if isinstance(action, Back) else "",
        )
        for i, action in enumerate(ACTIONS)
    )
    task = Task(f"clock-{name[0]}", "clock", text, {}, 0, 10, "sim", "Clock")
    return Trajectory(name, task, steps, reward, status, "phone-0", text, 3.0)


def evaluation(folder, wins: set[int], instances=4) -> None:
    episodes = [
        EpisodeResult(f"t-{i}", "t", "Clock", True, "test", 0, 0.0, i in wins, 3, "finished") for i in range(instances)
    ]
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


def page_of(run, against=None) -> Page:
    path = build(run, against)
    assert path == run / "view" / "index.html"
    return Page(path.read_text())


def loaded(run, name: str):
    """What the page is given when it loads `view/<name>.js`."""
    script = (run / "view" / f"{name}.js").read_text()
    return json.loads(re.fullmatch(rf'receive\("{name}",(.*)\);\n', script)[1])


def test_the_page_holds_the_run(run):
    (data,) = page_of(run).data["runs"]
    assert data["metrics"]["iteration"] == [0, 1, 2] and data["metrics"]["rollout/success_rate"] == [0, 0.25, 0.5]
    assert (data["trajectories"], data["outcomes"]) == (5, {"infra_error": 1, "success": 2, "finished": 2})
    index = loaded(run, "data/index")
    assert [(s["name"], s["total"]) for s in index["sources"]] == [("iter-000002", 3), ("iter-000001", 2)]
    # [source, index, task, outcome, reward, steps, group, device]
    assert [(row[0], row[1], row[3], row[6]) for row in index["rows"]] == [
        (0, 0, "infra_error", 0),
        (0, 1, "success", 1),
        (0, 2, "finished", 1),
        (1, 0, "success", 0),
        (1, 1, "finished", 0),
    ]
    assert index["tasks"][index["rows"][1][2]]["id"] == "clock-c"


def test_steps_say_what_was_seen_done_and_credited(run):
    write_advantages(run, 1, [trajectory("a-1", 0.0)], [[0.1, 0.2, 0.3, 0.4, -0.5]])
    build(run)
    first, second = loaded(run, "data/iter-000001-part0")
    steps = first["steps"]
    assert all((run / "view" / ".." / "screens" / f"{s['screen']}.png").is_file() for s in steps)
    assert steps[0]["action"] == {"kind": "tap", "x": 10, "y": 20}
    assert [s["note"] for s in steps] == ["", "", "", "no app fine", ""]
    assert (steps[0]["prompt_tokens"], steps[0]["logprob"], steps[0]["logprobs"]) == (3, -1.5, [-0.5, -1.0])
    assert [s["advantage"] for s in steps] == [None] * 5
    assert [s["advantage"] for s in second["steps"]] == [0.1, 0.2, 0.3, 0.4, -0.5]


def test_an_unlikely_token_of_a_long_reply_stays_visible():
    step = {
        "observation": {"screenshot": "", "width": 9, "height": 20, "xml": "", "app": ""},
        "completion": {"prompt_ids": [], "token_ids": [1] * 1000, "logprobs": [0.0] * 999 + [-9.0], "text": "",
                       "version": 1},
        "thought": "", "action": {"kind": "home"}, "timings": {}, "images": [],
    }  # fmt: skip
    bars = step_of(step, None)["logprobs"]
    assert len(bars) <= BARS and min(bars) == -9.0


def test_only_what_has_changed_is_built_again(run):
    build(run)
    script = run / "view" / "data" / "iter-000001-part0.js"
    script.write_text("unchanged")
    build(run)
    assert script.read_text() == "unchanged"
    save_trajectories(run, 1, [trajectory("a-0", 0.0)])
    build(run)
    assert len(loaded(run, "data/iter-000001-part0")) == 1
    (run / "trajectories" / "iter-000002.jsonl").unlink()
    build(run)
    assert not list((run / "view" / "data").glob("iter-000002*"))


@pytest.mark.parametrize("spoil", [
    lambda data: (data / "iter-000001-part0.js").unlink(),
    lambda data: (data / "iter-000001-part0.js").write_text(""),
    lambda data: (data / "iter-000001.steps.json").write_text(""),
    lambda data: (data / "iter-000001.steps.json").write_text("[1]"),
])  # fmt: skip
def test_what_a_power_cut_spoilt_is_built_again(run, spoil):
    build(run)
    spoil(run / "view" / "data")
    build(run)
    assert len(loaded(run, "data/iter-000001-part0")) == 2


def test_the_element_hit_is_the_smallest_that_reacts():
    xml = """<h><node class="a.Frame" bounds="[0,0][100,200]">
    <node class="a.Row" clickable="true" bounds="[0,0][100,40]">
    <node class="a.TextView" text="Save" bounds="[10,10][30,30]"/></node>
    <node class="a.EditText" text="milk" focused="true" bounds="[0,100][100,120]"/></node></h>"""
    hit = element_hit(xml, {"kind": "tap", "x": 200, "y": 100}, 100, 200)
    assert (hit["class"], hit["text"], hit["box"]) == ("Row", "Save", (0, 0, 100, 40))
    assert element_hit(xml, {"kind": "tap", "x": 999, "y": 999}, 100, 200)["class"] == "Frame"
    assert element_hit(xml, {"kind": "type", "text": "x"}, 100, 200)["text"] == "milk"
    assert element_hit(xml, {"kind": "home"}, 100, 200) is None
    for broken in ("", "<x", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "\ud800"):
        assert element_hit(broken, {"kind": "tap", "x": 1, "y": 1}, 100, 200) is None


# --- evaluations and the difference of runs --------------------------------------------------------------------------


def test_evaluations_stand_side_by_side_with_their_paired_difference(run):
    data = page_of(run).data
    assert [e["name"] for e in data["runs"][0]["evaluations"]] == ["sim-before", "sim-after"]
    assert all("instances" not in e for e in data["runs"][0]["evaluations"])
    (found,) = data["pairs"]["within"]
    assert (found["before"], found["after"], found["difference"]) == ("sim-before", "sim-after", 0.25)
    assert found["counts"] == {"won": 2, "lost": 1, "both": 1, "neither": 0}
    (rows,) = [pair["rows"] for pair in loaded(run, "data/pairs")["within"]]
    assert rows[3] == ["t-3", "t", [1, 1], [0, 1], "lost"]


def test_evaluations_of_other_instances_say_why_they_are_not_paired(run):
    evaluation(run / "eval" / "sim-after", {1}, instances=5)
    (found,) = page_of(run).data["pairs"]["within"]
    assert "not of the same instances" in found["reason"] and "difference" not in found


def test_two_runs_are_compared_by_their_evaluations_of_the_same_name(run, tmp_path):
    other = tmp_path / "folder #2" / "other"
    save_trajectories(other, 1, [trajectory("a-0", 0.0)])
    evaluation(other / "eval" / "sim-after", set())
    data = page_of(run, other).data
    assert [r["name"] for r in data["runs"]] == ["demo", "other"]
    assert data["runs"][1]["root"] == "../../folder%20%232/other/"
    (found,) = data["pairs"]["between"]
    assert (found["difference"], found["counts"]["won"]) == (0.75, 3)
    assert len(loaded(run, "against/iter-000001-part0")) == 1
    assert not (other / "view").exists()
    assert [r["name"] for r in page_of(run).data["runs"]] == ["demo"]
    assert not (run / "view" / "against").exists()


def test_a_run_is_not_compared_with_itself(run):
    with pytest.raises(ValueError, match="is the run itself"):
        build(run, run / ".")


# --- safety ----------------------------------------------------------------------------------------------------------


def test_what_a_model_wrote_stays_text(run):
    page = page_of(run)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert len(page.scripts) == 2  # the data and the page's own
    for file in (run / "view" / "data").glob("*.js"):
        assert not re.search(r"[<>&]", file.read_text())
    assert loaded(run, "data/iter-000002-part0")[0]["steps"][0]["thought"] == EVIL


def test_the_page_asks_nothing_of_the_network_and_runs_only_its_own_script(run):
    page = page_of(run)
    assert not [a for tag, a in page.tags if tag == "link" or "src" in a]
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "http" not in policy
    assert "script-src 'sha256-" in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page.scripts[1])


def test_a_server_knows_the_pages_and_their_screens_alone(run, tmp_path):
    other, screen = tmp_path / "other", "0" * 64 + ".png"
    served = {
        "/": run / "view/index.html", "/data/iter-000001-part0.js": run / "view/data/iter-000001-part0.js",
        f"/screens/{screen}": run / "screens" / screen, f"/against-run/screens/{screen}": other / "screens" / screen,
        f"/eval/sim/screens/{screen}": run / "eval/sim/screens" / screen,
    }  # fmt: skip
    assert {path: file_for(path, run, other) for path in served} == served
    refused = ("/config.json", "/screens/", "/data/../index.html", f"/eval/../../screens/{screen}", "/data/x.json",
               "/view/index.html", f"/screens/../screens/{screen}", "/data/index.js\n")  # fmt: skip
    assert [file_for(path, run, other) for path in refused] == [None] * len(refused)
    assert file_for(f"/against-run/screens/{screen}", run, None) is None


def asked_of(port: int, *heads: tuple[str, str]) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    for head in heads:
        connection.putheader(*head)
    connection.endheaders()
    with closing(connection):
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def test_a_server_answers_only_those_who_ask_for_it_by_its_own_address(run):
    """A page of another origin can make its own name lead to 127.0.0.1, but not choose another Host."""
    with make_server(run, None, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST:9000", "localhost"):
            assert asked_of(port, ("Host", host))[0] == 200, host
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "evil@localhost", "10.0.0.5"):
            status, said = asked_of(port, ("Host", host))
            assert status == 421 and "demo" not in said and "--host" in said, host
        assert asked_of(port)[0] == 421
        assert asked_of(port, ("Host", "localhost"), ("Host", "evil.example"))[0] == 421
        server.shutdown()


def test_a_server_for_other_machines_answers_to_the_address_it_was_given():
    assert is_for_us("Gpu-7.lab:8642", "gpu-7.lab", "10.0.0.5") and is_for_us("10.0.0.5:8642", "gpu-7.lab", "10.0.0.5")
    assert not is_for_us("10.0.0.6", "gpu-7.lab", "10.0.0.5") and not is_for_us("evil.example", "0.0.0.0", "0.0.0.0")
    assert is_for_us("10.0.0.6:8642", "0.0.0.0", "0.0.0.0") and is_for_us(gethostname(), "", "0.0.0.0")


# --- what is missing or wrong ----------------------------------------------------------------------------------------


def test_an_empty_run_still_gives_a_page(tmp_path):
    (data,) = page_of(tmp_path).data["runs"]
    assert data["metrics"] == {} and data["evaluations"] == [] and data["trajectories"] == 0


def test_a_line_without_its_fields_is_named(run):
    (run / "trajectories" / "iter-000001.jsonl").write_text('{"schema": 1, "id": "a"}\n')
    with pytest.raises(ValueError, match="iter-000001.jsonl, line 1: a field is missing .*'steps'"):
        build(run)


def test_advantages_that_are_not_as_written_are_named(run):
    (run / "advantages").mkdir()
    (run / "advantages" / "iter-000001.json").write_text("[1]")
    with pytest.raises(ValueError, match="advantages/iter-000001.json: an object of lists was expected"):
        build(run)


def test_a_folder_without_a_run_gets_no_page(run, tmp_path, capsys):
    from mobilerl.config import load_recipe, save_recipe

    empty = tmp_path / "empty"
    (empty / "eval").mkdir(parents=True)
    (empty / "config.json").write_text('{"model_type": "qwen2"}')  # of a checkpoint
    for words in ([str(empty)], [str(run), "--against", str(empty)]):
        assert main(["view", *words]) == 2
        said = capsys.readouterr().err
        assert f"{empty} holds no run: it has no metrics.jsonl" in said and "--run-dir" in said
        assert said.count("\n") == 1
    assert not (empty / "view").exists()
    save_recipe(load_recipe(None), empty / "config.json")  # a run that has just begun
    assert main(["view", str(empty)]) == 0


def test_the_command_names_what_it_cannot_use(run, capsys):
    assert main(["view", str(run)]) == 0
    assert capsys.readouterr().out.strip().endswith("demo/view/index.html")
    assert main(["view", str(run / "nowhere")]) == 2
    assert "nowhere: there is no such run directory" in capsys.readouterr().err
    assert main(["view", str(run), "--serve", "--port", "99999"]) == 2
    assert "cannot listen on 127.0.0.1:99999" in capsys.readouterr().err


def test_a_page_is_handed_out_where_no_browser_can_be_opened(run, capsys, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", lambda server: print("serving"))
    assert main(["view", str(run), "--serve", "--port", "0", "--open"]) == 0
    said = capsys.readouterr()
    assert "serving" in said.out and "no browser could be started here; open http://127.0.0.1:" in said.err
    assert main(["view", str(run), "--open"]) == 2
