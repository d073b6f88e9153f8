#!/usr/bin/env bash
# Boots an image of docker/avd/Dockerfile once, installs the apps, and saves the snapshot that its containers start from.
#
#   bash docker/avd/bake.sh [--apks FOLDER] [--adb-key FILE.pub]... BASE-IMAGE IMAGE
#
# --apks      installs every *.apk in a folder. If the image has AndroidWorld (build argument ANDROIDWORLD_COMMIT), its
#             own set-up runs as well, which downloads the apps and needs the internet.
# --adb-key   authorizes a public key in the image. Default: ~/.android/adbkey.pub, if it exists. For none, pass
#             --adb-key ''.
#
# MEMORY_MB, CORES and GPU from the environment apply to the image: other values later cause a cold boot. The engine is
# DOCKER_HOST's, or this machine's; it needs /dev/kvm and the same kind of CPU as the containers' hosts.
set -euo pipefail

fail() {
    printf 'bake.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

apks='' keys=() keys_given=''
while [[ ${1:-} == --* ]]; do
    [[ $# -ge 2 ]] || fail "$1 needs a value" 2
    case $1 in
        --apks) apks=$2 ;;
        --adb-key) keys_given=yes; [[ -z $2 ]] || keys+=("$2") ;;
        *) fail "there is no option $1; see the head of this file" 2 ;;
    esac
    shift 2
done
[[ $# == 2 ]] || fail "usage: bake.sh [--apks FOLDER] [--adb-key FILE.pub]... BASE-IMAGE IMAGE" 2
base=$1 image=$2
own=${HOME:-/root}/.android/adbkey.pub
[[ -n $keys_given || ! -f $own ]] || keys=("$own")

command -v docker >/dev/null || fail "docker is not installed: apt-get install -y docker.io" 2
docker version >/dev/null 2>&1 || fail "no Docker engine answers; start it: systemctl start docker" 2
docker image inspect "$base" >/dev/null 2>&1 ||
    fail "there is no image $base: docker build -t $base -f docker/avd/Dockerfile ." 2
files=$(mktemp -d)
mkdir "$files/apks" "$files/keys"
container=''
trap '[[ -z $container ]] || docker rm -f -v "$container" >/dev/null; rm -rf "$files"' EXIT
if [[ -n $apks ]]; then
    shopt -s nullglob
    found=("$apks"/*.apk)
    [[ ${#found[@]} -gt 0 ]] || fail "--apks: there is no *.apk in $apks" 2
    cp -- "${found[@]}" "$files/apks/"
fi
for i in "${!keys[@]}"; do
    [[ -f ${keys[i]} && $(wc -l <"${keys[i]}") -le 1 && $(<"${keys[i]}") == QAAAA* ]] ||
        fail "--adb-key: ${keys[i]} is no public key of adb (adb makes ~/.android/adbkey.pub)" 2
    cp -- "${keys[i]}" "$files/keys/$i.pub"
done

container=$(docker create --init --device /dev/kvm -e MEMORY_MB -e CORES -e GPU "$base")
docker cp "$files/." "$container:/tmp/bake" >/dev/null
docker start "$container" >/dev/null || fail "the container does not start: does this engine's host have /dev/kvm?"
echo "booting $base for the first time; this takes minutes"
until docker exec "$container" python3 -m avd.health >/dev/null 2>&1; do
    if [[ $(docker inspect -f '{{.State.Running}}' "$container") != true ]]; then
        docker logs --tail 20 "$container" >&2
        fail "the emulator did not boot: see above"
    fi
    sleep 2
done
docker exec "$container" python3 -m avd.bake /tmp/bake || fail "nothing was kept: see above"
mapfile -t cpu < <(docker exec "$container" python3 -m avd.cpu)
docker stop -t 30 "$container" >/dev/null
code=$(docker inspect -f '{{.State.ExitCode}}' "$container")
[[ $code == 0 ]] || fail "the emulator did not end in order (exit code $code): nothing was kept"
# `mobilerl fleet check` compares the CPU with that of a fleet's host.
docker commit --change 'LABEL mobilerl.snapshot=default_boot' --change "LABEL mobilerl.cpu.model=\"${cpu[0]:-}\"" \
    --change "LABEL mobilerl.cpu.flags=\"${cpu[1]:-}\"" "$container" "$image" >/dev/null
echo "baked $image"
