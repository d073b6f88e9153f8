#!/usr/bin/env bash
# Writes package.xml beside an unpacked emulator, from its source.properties. Used by the Dockerfile.
#
#   emulator-package.sh FOLDER
set -euo pipefail
folder=$1

revision=$(sed -n 's/^Pkg\.Revision *= *//p' "$folder/source.properties" | tr -d '\r')
if [[ ! $revision =~ ^[0-9]+(\.[0-9]+)*$ ]]; then
    echo "$folder/source.properties gives no Pkg.Revision: is this an emulator's archive?" >&2
    exit 1
fi
IFS=. read -r major minor micro _ <<<"$revision.0.0"
cat >"$folder/package.xml" <<XML
<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<common:repository xmlns:common="http://schemas.android.com/repository/android/common/02"
    xmlns:generic="http://schemas.android.com/repository/android/generic/02"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <localPackage path="emulator" obsolete="false">
    <type-details xsi:type="generic:genericDetailsType"/>
    <revision><major>$major</major><minor>$minor</minor><micro>$micro</micro></revision>
    <display-name>Android Emulator</display-name>
  </localPackage>
</common:repository>
XML
