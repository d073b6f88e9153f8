#!/usr/bin/env bash
# Installs what the tests need, then lints and runs them.
#
#   bash tests/run.sh [PYTEST-ARGUMENT...]         everything
#   bash tests/run.sh fast [PYTEST-ARGUMENT...]    lint and the quick unit tests

# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/common.sh"
cd "$ROOT" || exit

# install_program PACKAGE WITHOUT-IT COMMAND...: Debian's package, unless one of the commands is there.
install_program() {
    local package=$1 without=$2 name
    shift 2
    for name in "$@"; do
        command -v "$name" >/dev/null && return
    done
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        say "no $package here: $without (sudo apt-get install -y $package)"
        return
    fi
    say "installing $package"
    apt-get update -qq >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}

ensure_installed dev
tests=(tests)
if [[ ${1:-} == fast ]]; then
    shift
    tests=(tests/unit -m "not slow")
else
    install_program chromium "the viewer's browser tests are skipped" chromium chromium-browser google-chrome
    install_program docker.io "the tests of containers are skipped" dockerd
fi

# A fault in style fails the run but does not keep the tests from being run.
lint=0
"$VENV/bin/ruff" check --quiet . || lint=1
"$VENV/bin/shellcheck" -x recipes/*.sh docker/*/*.sh tests/run.sh .ci/run || lint=1
[[ $lint == 0 ]] || say "ruff or shellcheck found faults: see above"
"$VENV/bin/python" -m pytest -q "${tests[@]}" "$@"
exit "$lint"
