#!/usr/bin/env bash
# Downloads an archive of the Android SDK, compares its checksum, and unpacks it. Used by the Dockerfile.
#
#   fetch.sh ARCHIVE SHA1-OR-SHA256 FOLDER
set -euo pipefail
archive=$1 sum=$2 folder=$3

case ${#sum} in
    40) check=sha1sum ;;
    64) check=sha256sum ;;
    *) echo "$archive: $sum is neither a SHA-1 nor a SHA-256" >&2; exit 2 ;;
esac
file=$(mktemp)
trap 'rm -f "$file"' EXIT
curl --fail --silent --show-error --location --proto '=https' --retry 3 --output "$file" \
    "https://dl.google.com/android/repository/$archive"
if ! printf '%s  %s\n' "$sum" "$file" | "$check" --check --status; then
    echo "$archive has another checksum than $sum: pass the new one as a build argument, if you trust it" >&2
    exit 1
fi
mkdir -p "$folder"
unzip -q -o "$file" -d "$folder"
