#!/usr/bin/env bash
# One node of a Ray cluster, in the foreground until it gets SIGTERM or SIGINT. Only what it started is stopped then.
#
#   bash recipes/cluster/ray-node.sh head [FLAG OF ray start...]
#   bash recipes/cluster/ray-node.sh worker HEAD:PORT [FLAG OF ray start...]
#   bash recipes/cluster/ray-node.sh address            prints HEAD:PORT, on the head
#   bash recipes/cluster/ray-node.sh wait HEAD:PORT N   until N nodes are there, on a node of the cluster
#
#   VENV        the virtual environment with Ray (default: .venv in the repository)
#   PORT        first of eight ports in a row (default: 6379); Ray's workers take WORKER_PORTS (default: 20000-21999)
#   INTERFACE   network interface the nodes reach each other by (default: the one Ray finds)
#   LOGS        folder for Ray's logs, which are copied there at the end (default: none)
#   WAIT_S      how long `wait` waits (default: 600)
#   RAY_AUTH_MODE, RAY_AUTH_TOKEN_PATH   "token", and a file with one that all nodes see; otherwise whoever reaches the
#               ports can run programs here (default: disabled)

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VENV=${VENV:-$ROOT/.venv}
PORT=${PORT:-6379}
WORKER_PORTS=${WORKER_PORTS:-20000-21999}
# Left to itself, Ray's head asks for a token if it finds one in the home folder, and the others then do not send it.
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-disabled}
# What it waits for before it stops is for its web servers only.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

die() {
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

node_ip() {
    local ip
    if [[ -n ${INTERFACE:-} ]]; then
        ip=$(ip -4 -oneline address show dev "$INTERFACE" | awk '{ sub(/\/.*/, "", $4); print $4; exit }') || true
        [[ -n $ip ]] || die "INTERFACE=$INTERFACE has no IPv4 address on $(hostname); \`ip -4 -brief address\` lists those that have"
        echo "$ip"
    else
        "$VENV/bin/python" -c 'import ray.util; print(ray.util.get_node_ip_address())'
    fi
}

# Tries until the head answers and has N nodes; prints what it still misses when that takes too long.
wait_for_nodes() {
    "$VENV/bin/python" - "$1" "$2" "${WAIT_S:-600}" <<'PY'
import socket
import sys
import time

import ray

address, wanted, until = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
found = 0
while found < wanted:
    if time.monotonic() > until:
        sys.exit(f"ray-node.sh: error: {found} of {wanted} nodes of the Ray cluster {address} came up; see their logs")
    try:
        if not ray.is_initialized():
            host, port = address.rsplit(":", 1)
            socket.create_connection((host, int(port)), timeout=5).close()  # without a head, Ray tries for minutes
            ray.init(address, log_to_driver=False, logging_level="error")
        found = sum(node["Alive"] for node in ray.nodes())
    except OSError:
        pass
    time.sleep(1)
PY
}

# end_ray PID: as long as it is a copy of this shell, which is to become Ray, a signal to it would be lost.
# shellcheck disable=SC2329  # a trap calls it
end_ray() {
    [[ -n $1 ]] || exit 1
    while cmp -s "/proc/$1/cmdline" "/proc/$$/cmdline"; do sleep 0.01; done
    kill -TERM "$1" 2>/dev/null || true
}

start() {
    local temp ray status=0 ip
    trap 'end_ray "${!:-}"' TERM INT  # $! is set as Ray starts, $ray a moment later
    ip=$(node_ip)
    if [[ -n ${INTERFACE:-} ]]; then
        export NCCL_SOCKET_IFNAME=$INTERFACE GLOO_SOCKET_IFNAME=$INTERFACE
    fi
    temp=$(mktemp -d /tmp/ray-XXXXXX)  # short: a socket's whole path has 107 bytes
    "$VENV/bin/ray" start --block --disable-usage-stats --node-ip-address "$ip" --temp-dir "$temp" \
        --node-manager-port $((PORT + 1)) --object-manager-port $((PORT + 2)) \
        --dashboard-agent-grpc-port $((PORT + 3)) --dashboard-agent-listen-port $((PORT + 4)) \
        --runtime-env-agent-port $((PORT + 5)) --metrics-export-port $((PORT + 6)) \
        --min-worker-port "${WORKER_PORTS%-*}" --max-worker-port "${WORKER_PORTS#*-}" "$@" &
    ray=$!
    wait "$ray" || status=$?
    while kill -0 "$ray" 2>/dev/null; do  # a signal ends `wait` before Ray has ended
        wait "$ray" || status=$?
    done
    if [[ -n ${LOGS:-} ]]; then
        mkdir -p "$LOGS"
        cp -rL "$temp"/session_latest/logs "$LOGS/$(hostname)-$PORT" || true
    fi
    rm -rf "$temp"
    exit "$status"
}

case ${1:-} in
    # No dashboard: whoever reaches it can run programs here. It does no good to the training.
    head)
        shift
        start --head --port "$PORT" --ray-client-server-port $((PORT + 7)) --include-dashboard=false "$@"
        ;;
    worker)
        address=${2:-}
        [[ $address == *:* ]] || die "worker wants HEAD:PORT"
        shift 2
        start --address "$address" "$@"
        ;;
    address) ip=$(node_ip) && printf '%s:%s\n' "$ip" "$PORT" ;;
    wait)
        [[ ${2:-} == *:* && ${3:-} =~ ^[0-9]+$ ]] || die "wait wants HEAD:PORT and a number of nodes"
        wait_for_nodes "$2" "$3"
        ;;
    *) die "say head, worker HEAD:PORT, address, or wait HEAD:PORT N" ;;
esac
