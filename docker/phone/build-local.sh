#!/usr/bin/env bash
# Builds the image of the embedded phone from this machine's own Python, without a registry.
#
#   bash docker/phone/build-local.sh [TAG]        (default: mobilerl-phone)
#
# PYTHON (default: python3) must have Pillow and fontpkg-roboto. The image contains the interpreter, its standard
# library, both packages, the shared libraries that they link to, and envs/.
set -euo pipefail
TAG=${1:-mobilerl-phone}
PYTHON=${PYTHON:-python3}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

command -v docker >/dev/null || { echo "docker is not installed: apt-get install -y docker.io" >&2; exit 2; }
docker version >/dev/null 2>&1 || { echo "no Docker engine answers; start it: systemctl start docker" >&2; exit 2; }
"$PYTHON" -c 'import PIL, fontpkg_roboto' 2>/dev/null ||
    { echo "$PYTHON lacks a package: $PYTHON -m pip install Pillow fontpkg-roboto" >&2; exit 2; }

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
"$PYTHON" "$ROOT/docker/phone/root_files.py" "$files"
mkdir -p "$files/opt/mobilerl/mobilerl"
cp -r "$ROOT/mobilerl/__init__.py" "$ROOT/envs" "$files/opt/mobilerl/mobilerl/"
find "$files/opt/mobilerl" -name __pycache__ -prune -exec rm -rf {} +

tar -C "$files" --owner=0 --group=0 -c . | docker import \
    --change 'WORKDIR /opt/mobilerl' \
    --change 'USER 65534' \
    --change 'EXPOSE 5554 5555' \
    --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1' \
    --change 'HEALTHCHECK --interval=60s --timeout=5s --start-period=5s --retries=3 CMD ["python3", "-c", "import socket; socket.create_connection((\"127.0.0.1\", 5555), 3)"]' \
    --change 'ENTRYPOINT ["python3", "-m", "mobilerl.envs.phone", "--host", "0.0.0.0", "--port", "5555", "--console-port", "5554"]' \
    - "$TAG" >/dev/null
echo "built $TAG"
