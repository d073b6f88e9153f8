"""The recipes of clusters and the scripts that start them, with stand-ins for every program they call."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobilerl.config import load_recipe

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "recipes" / "cluster"
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
    *find_spec*) [[ -n ${HAS_VERL:-} ]] ;;
    "-m pip "*) echo "pip $*" >>"$CALLS" ;;
    *torch.version.cuda*) [[ -n ${HAS_CUDA:-} ]] ;;
    *"import torch"*) [[ -n ${HAS_TORCH:-} ]] ;;
    *get_node_ip_address*) echo 10.0.0.9 ;;
    "- "*)
        cat >/dev/null
        until [[ ! -e $CALLS ]] || (($(grep -c '^ray start' "$CALLS") >= ($3 > 1 ? 2 : 1))); do sleep 0.02; done
        echo "wait $2 $3" >>"$CALLS"
        ;;
esac
"""
MOBILERL = r"""#!/usr/bin/env bash
echo "mobilerl $*" >>"$CALLS"
[[ $1 != train ]] || eval "${DURING_TRAINING:-:}"
[[ $1 != view ]] || echo page.html
"""
RAY = r"""#!/usr/bin/env bash
trap 'echo "ray stopped $$" >>"$CALLS"; exit 1' TERM
call="ray $* [$RAY_AUTH_MODE]"
while [[ $1 != --temp-dir ]]; do shift; done
mkdir -p "$2/session_latest/logs" && echo said >"$2/session_latest/logs/raylet.out"
echo "$call" >>"$CALLS"
while [[ -e $CALLS ]]; do sleep 0.05; done
"""
SRUN = r"""#!/usr/bin/env bash
while [[ $1 != bash ]]; do
    case $1 in
        --nodes) nodes=$2 ;;
        --nodelist | --exclude) where="$1 $2" ;;
        --output) log=$2 ;;
    esac
    shift
done
echo "srun $nodes $where" >>"$CALLS"
[[ $log == all ]] || exec >>"${log//%N/node}"
exec "$@"
"""
SCONTROL = "#!/usr/bin/env bash\nprintf '%s\\n' gpu-1 gpu-2 gpu-3\n"


class Place:
    """A folder with a virtual environment of stand-ins, which write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls_file, bin_ = folder, folder / "calls", folder / "venv" / "bin"
        bin_.mkdir(parents=True)
        self.calls_file.touch()
        programs = {"python": PYTHON, "mobilerl": MOBILERL, "ray": RAY, "srun": SRUN, "scontrol": SCONTROL}
        for name, text in programs.items():
            (bin_ / name).write_text(text)
            (bin_ / name).chmod(0o755)
        keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        self.env = {
            **keep, "PATH": f"{bin_}:{os.environ['PATH']}", "VENV": str(folder / "venv"), "CALLS": str(self.calls_file),
            "RUN_DIR": str(folder / "run"), "SFT_DIR": str(folder / "sft"), "EVALUATE": "no",
        }  # fmt: skip
        (folder / "sft" / "final").mkdir(parents=True)

    def start(self, script: Path, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(script), *words], env=self.env | env, cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, script: Path, *words: str, fails: bool = False, **env: str) -> str:
        """What it printed; its error where it `fails`."""
        process = self.start(script, *words, **env)
        out, err = process.communicate(timeout=60)
        assert (process.returncode != 0) == fails, out + err
        return err if fails else out

    def adagrpo(self, *words: str, **env: str) -> str:
        return self.run(ROOT / "recipes" / "adagrpo.sh", *words, **env)

    def calls(self, program: str) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(program)]

    def stopped(self) -> set[str]:
        """Ray's processes that were told to stop; one may be told again while it does."""
        return set(self.calls("ray stopped"))

    def trained(self) -> list[str]:
        """The words after `mobilerl train`."""
        (line,) = self.calls("mobilerl train")
        return line.split()[2:]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.calls_file.unlink()  # ends the stand-ins that a failed test has left


def after(words: list[str], flag: str) -> str:
    """The value of a flag; of the last one, which wins."""
    return words[len(words) - words[::-1].index(flag)]


def wait_for(place: Place, call: str, count: int = 1) -> None:
    until = time.monotonic() + 30
    while len(place.calls(call)) < count:
        assert time.monotonic() < until, f"no {call} in {place.calls('')}"
        time.sleep(0.02)


# --- the recipes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(CLUSTER.glob("*.toml")), ids=lambda p: p.stem)
def test_every_cluster_recipe_loads(path):
    recipe = load_recipe(path)
    assert recipe.engine.type == "verl"
    assert recipe.collect.workers == 0, "worker processes hold a policy of their own"
    assert recipe.engine.micro_tokens >= recipe.vllm.max_prompt, (
        "else the longest row is a micro-batch beyond its limit"
    )
    assert f"--config recipes/cluster/{path.name}" in path.read_text()


def test_there_is_a_recipe_for_each_model_the_documentation_names():
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert {path.name for path in CLUSTER.glob("*.toml")} == {"qwen2.5-vl-7b.toml", "glm-4.1v-9b.toml"}
    assert all(path.name in page for path in CLUSTER.iterdir())


# --- recipes/adagrpo.sh --------------------------------------------------------------------------------------------


def test_the_short_flags_become_settings(place):
    config = CLUSTER / "qwen2.5-vl-7b.toml"
    place.adagrpo(
        "--engine", "verl", f"--config={config}", "--model", "some folder", "--nodes", "4", "--phone.count", "7",
        HAS_VERL="1", RAY_ADDRESS="10.0.0.1:6379",
    )  # fmt: skip
    words = place.trained()
    assert after(words, "--engine.type") == "verl" and after(words, "--cluster.nodes") == "4"
    assert after(words, "--config") == str(config) and after(words, "--phone.count") == "7"
    assert " --model some folder " in place.calls("mobilerl train")[0]
    assert {"--engine", "--nodes"}.isdisjoint(words)
    load_recipe(config, words[words.index("--engine.type") :])


@pytest.mark.parametrize(
    ("words", "env", "engine"),
    [
        ((), {}, "local"),
        (("--config", str(CLUSTER / "glm-4.1v-9b.toml")), {"RAY_ADDRESS": "x:1"}, "verl"),
        (("--config", str(CLUSTER / "glm-4.1v-9b.toml")), {"ENGINE": "local"}, "local"),
        (("--engine=verl",), {"ENGINE": "local"}, "verl"),
        (("--engine", "verl", "--engine.type", "local"), {}, "local"),
        (("--engine.type=verl",), {}, "verl"),
    ],
)
def test_the_command_line_wins_over_the_environment_and_that_over_the_recipe(place, words, env, engine):
    place.adagrpo(*words, HAS_VERL="1", HAS_TORCH="1", **env)
    assert after([w for word in place.trained() for w in word.split("=")], "--engine.type") == engine
    assert bool(place.calls("pip")) == (engine == "local"), "verl is there already"


def test_a_short_flag_without_its_value_is_refused(place):
    assert "--engine wants a value" in place.adagrpo("--engine", fails=True)
    assert not place.calls("")


def test_a_section_of_the_engine_goes_to_the_trainer_but_cannot_hide_its_type(place):
    place.adagrpo("--engine", '{"micro_tokens": 64}')
    words = place.trained()
    assert after(words, "--engine.type") == "local" and "--engine" in words
    for flag in (("--engine", '{"type": "verl"}'), ('--engine={"type": "verl"}',)):
        assert "name it by --engine.type" in place.adagrpo(*flag, fails=True)


def test_several_nodes_without_a_ray_cluster_are_refused_before_anything_is_installed(place):
    assert "RAY_ADDRESS" in place.adagrpo("--engine", "verl", "--nodes", "2", fails=True)
    assert "RAY_ADDRESS" in place.adagrpo("--config", str(CLUSTER / "glm-4.1v-9b.toml"), fails=True)
    assert not place.calls("")
    place.adagrpo("--engine", "verl", "--nodes", "2", "--cluster.address", "10.0.0.1:6379", HAS_VERL="1")
    assert after(place.trained(), "--cluster.nodes") == "2"


def test_the_same_command_goes_on_with_the_run(place):
    place.adagrpo("--engine", "verl", HAS_VERL="1")
    assert "--resume" not in place.trained()
    (place.folder / "run").mkdir(exist_ok=True)
    (place.folder / "run" / "config.json").touch()
    place.calls_file.write_text("")
    place.adagrpo("--engine", "verl", HAS_VERL="1")
    assert "--resume" in place.trained()


def test_verl_gets_the_torch_of_its_vllm_and_the_fleet_adds_its_extra(place):
    place.adagrpo("--engine", "verl", "--fleet.type=docker", HAS_CUDA="1")
    versions = f"-c {ROOT}/constraints.txt -c {CLUSTER}/constraints.txt"
    first, second = place.calls("pip")
    assert first.endswith(f"{versions} torch") and second.endswith(f"{versions} -e {ROOT}[verl,tracking,docker]")
    assert "torch==2.11.0\n" in (CLUSTER / "constraints.txt").read_text()


def test_torch_without_cuda_is_noticed_before_verl_is_installed(place):
    assert "without CUDA" in place.adagrpo("--engine", "verl", fails=True)
    assert len(place.calls("pip")) == 1 and not place.calls("mobilerl")


def test_without_verl_torch_comes_first(place):
    place.adagrpo("--fleet.type", "adb")
    assert [line.split()[-1] for line in place.calls("pip")] == ["torch==2.13.0", f"{ROOT}[local,tracking,adb]"]


def test_a_checkpoint_takes_the_place_of_the_warm_up(place):
    (place.folder / "sft" / "final").rmdir()
    place.adagrpo("--model", "given", HAS_TORCH="1")
    assert not place.calls("mobilerl sft")


def test_the_warm_up_before_verl_changes_nothing_that_is_installed(place):
    (place.folder / "sft" / "final").rmdir()
    place.adagrpo("--engine", "verl", "--config", str(CLUSTER / "qwen2.5-vl-7b.toml"), HAS_VERL="1")
    assert place.calls("mobilerl sft") and not place.calls("pip")
    (evaluated,) = place.calls("mobilerl eval")
    assert "adagrpo.toml" in evaluated, "the warm-up has a recipe of its own"


def test_policies_are_evaluated_with_the_recipe_of_the_run(place):
    config = str(CLUSTER / "qwen2.5-vl-7b.toml")
    place.adagrpo("--config", config, "--model", "given", HAS_VERL="1", EVALUATE="yes")
    lines = place.calls("mobilerl eval")
    assert len(lines) == 4 and all(config in line for line in lines)


# --- Ray's nodes, and SLURM ----------------------------------------------------------------------------------------


def test_a_node_names_its_ports_and_leaves_its_logs(place):
    logs = place.folder / "logs"
    node = place.start(
        CLUSTER / "ray-node.sh", "worker", "10.0.0.1:6379", "--num-gpus", "8", PORT="7000", LOGS=str(logs)
    )
    wait_for(place, "ray start")
    node.send_signal(signal.SIGTERM)
    node.communicate(timeout=30)
    (started,) = place.calls("ray start")
    words = started.split()
    ports = [after(words, f"--{name}-port") for name in ("node-manager", "object-manager", "metrics-export")]
    assert ports == ["7001", "7002", "7006"]
    assert (after(words, "--min-worker-port"), after(words, "--max-worker-port")) == ("20000", "21999")
    assert after(words, "--address") == "10.0.0.1:6379" and after(words, "--num-gpus") == "8"
    assert "[disabled]" in words, "said to all nodes alike: Ray's own default depends on the home folder"
    assert place.stopped()
    assert [p.read_text() for p in logs.rglob("raylet.out")] == ["said\n"]
    assert not Path(after(words, "--temp-dir")).exists()


@pytest.mark.parametrize("words", [(), ("worker",), ("worker", "10.0.0.1"), ("wait", "10.0.0.1:6379")])
def test_a_node_wants_to_know_its_part(place, words):
    assert "error:" in place.run(CLUSTER / "ray-node.sh", *words, fails=True)
    assert not place.calls("ray")


def slurm(place: Place, nodes: int) -> dict[str, str]:
    return {
        "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "gpu-[1-3]",
        "SLURM_NNODES": str(nodes), "SLURM_CPUS_ON_NODE": "96", "HAS_VERL": "1",
    }  # fmt: skip


def test_a_slurm_job_starts_the_cluster_runs_the_recipe_and_stops_what_it_started(place):
    place.run(CLUSTER / "slurm.sbatch", "--phone.count", "9", ROLLOUT_NODES="1", DURING_TRAINING=(
        'echo "during $RAY_ADDRESS $RAY_AUTH_MODE $(stat -c %a "$RAY_AUTH_TOKEN_PATH") '
        '$(wc -c <"$RAY_AUTH_TOKEN_PATH")" >>"$CALLS"'
    ), **slurm(place, 3))  # fmt: skip
    head, worker = (line.split() for line in sorted(place.calls("ray start"), key=lambda line: "--head" not in line))
    assert "--head" in head and "--include-dashboard=false" in head
    assert after(worker, "--address") == "10.0.0.9:6379"
    assert "srun 2 --exclude gpu-1" in place.calls("srun"), "workers are everywhere but where the head is"
    assert place.calls("wait") == ["wait 10.0.0.9:6379 3"]
    words = place.trained()
    assert after(words, "--cluster.nodes") == "2" and after(words, "--cluster.rollout_nodes") == "1"
    assert after(words, "--phone.count") == "9"
    assert place.calls("during") == ["during 10.0.0.9:6379 token 600 64"]
    assert len(place.stopped()) == 2
    logs = place.folder / "run" / "ray" / "12"
    assert {p.name for p in logs.glob("*.log")} == {"node-head.log", "node-worker.log"}
    assert not (logs / "token").exists()


def test_a_slurm_job_fails_with_its_run(place):
    place.run(CLUSTER / "slurm.sbatch", fails=True, DURING_TRAINING="exit 3", **slurm(place, 1))
    assert len(place.calls("ray start")) == len(place.stopped()) == 1


def test_when_the_jobs_time_is_over_the_run_is_interrupted_and_tidies_up(place):
    waits = (
        'trap "echo interrupted >>$CALLS; exit 130" INT; echo begun >>"$CALLS"; '
        "while [[ -e $CALLS ]]; do sleep 0.05; done"
    )
    job = place.start(CLUSTER / "slurm.sbatch", DURING_TRAINING=waits, **slurm(place, 2))
    wait_for(place, "begun")
    wait_for(place, "ray start", 2)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=30)
    assert job.returncode != 0
    assert place.calls("interrupted") and len(place.stopped()) == 2
