"""The recipes of clusters and the scripts that start them, with stubs for the programs they call."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mobilerl.cli import make_parser
from mobilerl.cli.run import pipeline_of
from mobilerl.config import Recipe, load_recipe

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "recipes" / "cluster"
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
    *find_spec*verl) [[ -n ${HAS_VERL:-} ]] ;;
    *find_spec*torch) [[ -n ${HAS_TORCH:-} ]] ;;
    "-m pip "*) echo "pip $*" >>"$CALLS" ;;
    *torch.version.cuda*) true ;;
    *get_node_ip_address*) echo 10.0.0.9 ;;
    "- "*)
        cat >/dev/null
        until [[ ! -e $CALLS ]] || (($(grep -c '^ray start' "$CALLS") >= ($3 > 1 ? 2 : 1))); do sleep 0.02; done
        echo "wait $2 $3" >>"$CALLS"
        ;;
esac
"""
MOBILERL = (
    rf"""#!/usr/bin/env bash
[[ $* != *--extras ]] || exec {sys.executable} -m mobilerl "$@"
"""
    + r"""
echo "mobilerl $*" >>"$CALLS"
eval "${DURING_TRAINING:-:}"
"""
)
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
set -m
SLURM_STEP_ID=0 "$@" &
task=$!
trap 'kill -INT "$task"' INT
trap 'kill -KILL -- "-$task"' TERM
status=0
until wait "$task" || status=$?; ! kill -0 "$task" 2>/dev/null; do status=0; done
exit "$status"
"""
"""As SLURM's: SIGINT reaches the first process of a task alone, and SIGTERM kills all of them."""
SCONTROL = "#!/usr/bin/env bash\nprintf '%s\\n' gpu-1 gpu-2 gpu-3\n"


class Place:
    """A folder with a virtual environment of stubs that log their calls."""

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
            **keep,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "VENV": str(folder / "venv"),
            "CALLS": str(self.calls_file),
            "RUN_DIR": str(folder / "run"),
            "SFT_DIR": str(folder / "sft"),
            "EVALUATE": "no",
            "PYTHONPATH": str(ROOT),
        }
        (folder / "sft" / "final").mkdir(parents=True)

    def start(self, script: Path, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(script), *words],
            env=self.env | env,
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A test that was started in the background ignores SIGINT, and so would these scripts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, script: Path, *words: str, **env: str) -> None:
        process = self.start(script, *words, **env)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, out + err

    def adagrpo(self, *words: str, **env: str) -> None:
        self.run(ROOT / "recipes" / "adagrpo.sh", *words, **env)

    def calls(self, program: str) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(program)]

    def stopped(self) -> set[str]:
        """Ray's processes that were told to stop."""
        return set(self.calls("ray stopped"))

    def trained(self) -> list[str]:
        """The words after `mobilerl`."""
        (line,) = self.calls("mobilerl run")
        return line.split()[1:]

    def recipe(self) -> Recipe:
        """What `mobilerl run` was told to train."""
        args, settings = make_parser().parse_known_args(self.trained())
        return pipeline_of(args, settings).recipe()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.calls_file.unlink()  # ends the stand-ins that a failed test has left


def after(words: list[str], flag: str) -> str:
    """The value of a flag; of the last one, which wins."""
    return words[len(words) - words[::-1].index(flag)]


def wait_for(place: Place, call: str, count: int = 1) -> None:
    until = time.monotonic() + 120
    while len(place.calls(call)) < count:
        assert time.monotonic() < until, f"no {call} in {place.calls('')}"
        time.sleep(0.02)


# --- the recipes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(CLUSTER.glob("*.toml")), ids=lambda p: p.stem)
def test_every_cluster_recipe_loads(path):
    recipe = load_recipe(path)
    assert recipe.engine.type == "verl"
    assert recipe.engine.micro_batch_tokens >= recipe.vllm.max_prompt
    assert recipe.algorithm.loss.recompute_old_logprobs, "vLLM in bfloat16 would be the old policy"


# --- recipes/adagrpo.sh --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adagrpo", "digirl", "distrl", "filtered_bc", "gigpo", "reachagent", "sft"])
def test_help_installs_nothing_but_the_command(place, name):
    place.run(ROOT / "recipes" / f"{name}.sh", "--train.seed", "1", "--help", HAS_VERL="1")
    (call,) = place.calls("")
    assert call.startswith(f"mobilerl run {name} --train.seed 1 --help")


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (("--config", f"{CLUSTER}/glm-4.1v-9b.toml", "--model", "m", "--nodes", "4"), "verl"),
        (("--engine=verl",), "verl"),
        (("--engine", "verl", "--engine.type", "local"), "local"),
    ],
)
def test_flags_override_the_recipe(place, words, engine):
    place.adagrpo(*words, HAS_VERL="1", HAS_TORCH="1")
    recipe = place.recipe()
    assert (recipe.engine.type, recipe.cluster.nodes) == (engine, 4 if "--nodes" in words else 1)
    assert bool(place.calls("pip")) == (engine == "local"), "verl is there already"


@pytest.mark.parametrize(("flag", "extra"), [("--engine.type=verl", "verl"), ("--engine.type=vllm", "vllm")])
def test_vllm_is_installed_with_its_torch(place, flag, extra):
    place.adagrpo(flag, "--fleet.type=docker")
    versions = f"-c {CLUSTER}/constraints.txt"
    core, first, second = place.calls("pip")
    assert core.endswith(f"-e {ROOT}") and first.endswith(f"{versions} torch")
    assert second.endswith(f"{versions} -e {ROOT}[local,{extra},docker]")


# --- Ray's nodes, and SLURM ----------------------------------------------------------------------------------------


def slurm(nodes: int) -> dict[str, str]:
    return {
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "gpu-[1-3]",
        "SLURM_NNODES": str(nodes),
        "SLURM_CPUS_ON_NODE": "96",
        "HAS_VERL": "1",
    }


def test_a_slurm_job_starts_the_cluster_runs_the_recipe_and_stops_what_it_started(place):
    place.run(
        CLUSTER / "slurm.sbatch",
        "--fleet.count",
        "9",
        ROLLOUT_NODES="1",
        DURING_TRAINING=(
            'echo "during $RAY_ADDRESS $RAY_AUTH_MODE $(stat -c %a "$RAY_AUTH_TOKEN_PATH") '
            '$(wc -c <"$RAY_AUTH_TOKEN_PATH")" >>"$CALLS"'
        ),
        **slurm(3),
    )
    head, worker = (line.split() for line in sorted(place.calls("ray start"), key=lambda line: "--head" not in line))
    assert "--head" in head and "--include-dashboard=false" in head
    assert after(worker, "--address") == "10.0.0.9:6379"
    assert "srun 2 --exclude gpu-1" in place.calls("srun"), "workers are everywhere but where the head is"
    assert place.calls("wait") == ["wait 10.0.0.9:6379 3"]
    words = place.trained()
    assert after(words, "--nodes") == "2" and after(words, "--cluster.rollout_nodes") == "1"
    assert after(words, "--fleet.count") == "9"
    assert place.calls("during") == ["during 10.0.0.9:6379 token 600 64"]
    assert len(place.stopped()) == 2
    assert not (place.folder / "run/ray/12/token").exists()
    assert list(place.folder.glob("run/ray/12/*-6379/raylet.out")), "Ray was killed before its logs were copied"


def test_when_the_jobs_time_is_over_the_run_is_saved_and_tidies_up(place):
    waits = (
        'trap "echo saved >>$CALLS; sleep 0.5; exit 143" INT; trap "exit 1" TERM; echo begun >>"$CALLS"; '
        "while [[ -e $CALLS ]]; do sleep 0.05; done"
    )
    job = place.start(CLUSTER / "slurm.sbatch", DURING_TRAINING=waits, SLURM_RESTART_COUNT="1", **slurm(2))
    wait_for(place, "begun")
    wait_for(place, "ray start", 2)
    job.send_signal(signal.SIGTERM)
    wait_for(place, "saved")
    job.send_signal(signal.SIGTERM)  # preemption, and then the end of its grace time
    out, err = job.communicate(timeout=300)
    assert job.returncode == 143, out + err
    assert len(place.calls("saved")) == 1 and len(place.stopped()) == 2
    assert list(place.folder.glob("run/ray/12-1/*-6379/raylet.out"))


def test_a_slurm_job_with_no_node_left_for_training_says_so_before_it_starts_anything(place):
    job = place.start(CLUSTER / "slurm.sbatch", ROLLOUT_NODES="2", **slurm(2))
    _, err = job.communicate(timeout=60)
    assert job.returncode == 2 and "ROLLOUT_NODES=2 of 2 nodes" in err and not place.calls("")


def test_waiting_for_a_head_that_never_comes_ends_in_time(place):
    asked_ray = "def is_initialized(): return False\ndef init(*_, **__): raise SystemExit(9)\n"
    (place.folder / "ray.py").write_text(asked_ray)
    (place.folder / "venv/bin/python").unlink()
    (place.folder / "venv/bin/python").symlink_to(sys.executable)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        head = f"127.0.0.1:{unused.getsockname()[1]}"
        wait = place.start(CLUSTER / "ray-node.sh", "wait", head, "2", WAIT_S="1", PYTHONPATH=str(place.folder))
        _, err = wait.communicate(timeout=60)
    assert wait.returncode == 1 and f"0 of 2 nodes of the Ray cluster {head} came up" in err


@pytest.mark.parametrize("words", [("address",), ("worker", "10.0.0.9:6379")])
def test_an_interface_without_an_address_is_named(place, words):
    node = place.start(CLUSTER / "ray-node.sh", *words, INTERFACE="nowhere0")
    out, err = node.communicate(timeout=60)
    assert node.returncode == 2 and "INTERFACE=nowhere0 has no IPv4 address" in err and not out
    assert not place.calls("ray")


# --- KubeRay and SkyPilot ------------------------------------------------------------------------------------------


def test_kuberays_job_runs_the_recipe_on_as_many_gpus_as_it_asks_for(place):
    job = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text())["spec"]
    words = shlex.split(job["entrypoint"].replace("/opt/mobilerl", str(ROOT)))
    script = next(i for i, word in enumerate(words) if word.endswith("adagrpo.sh"))
    place.adagrpo(*words[script + 1 :], HAS_VERL="1")
    recipe = place.recipe()
    (group,) = job["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert recipe.cluster.nodes + recipe.cluster.rollout_nodes == group["replicas"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(recipe.cluster.gpus_per_node)


def test_skypilots_nodes_start_ray_and_the_first_runs_the_recipe(place):
    task = yaml.safe_load((CLUSTER / "skypilot.yaml").read_text())
    node = {"SKYPILOT_NODE_IPS": "10.0.0.9\n10.0.0.10", "SKYPILOT_NUM_NODES": "2", "HAS_VERL": "1", **task["envs"]}
    (script := place.folder / "run.sh").write_text(f"cd {ROOT}\n{task['run']}")
    worker = place.start(script, SKYPILOT_NODE_RANK="1", **node)
    wait_for(place, "ray start --block")
    place.run(script, SKYPILOT_NODE_RANK="0", **node)
    assert place.calls("wait") == ["wait 10.0.0.9:7379 2"]
    head, joined = sorted(place.calls("ray start"), key=lambda line: "--head" not in line)
    assert after(head.split(), "--port") == "7379" and after(joined.split(), "--address") == "10.0.0.9:7379"
    assert after(place.trained(), "--model") == task["envs"]["MODEL"]
    assert after(place.trained(), "--nodes") == "2"
    worker.terminate()
    worker.communicate(timeout=60)
    assert len(place.stopped()) == 2
    assert worker.returncode == 0, "the job would fail after a run that did not"
    failed = place.start(script, SKYPILOT_NODE_RANK="0", **node, DURING_TRAINING="exit 3")
    failed.communicate(timeout=60)
    assert failed.returncode == 3
