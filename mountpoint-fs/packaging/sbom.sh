#!/usr/bin/env bash
# Lists the crates that are linked into mount-s3: sbom.sh FOLDER puts mount-s3-VERSION.cdx.json (CycloneDX 1.5) into FOLDER.
#
# Needs cargo-cyclonedx. The file says nothing of the machine, nor of when it was made.
set -euo pipefail

folder=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$workspace/Cargo.toml" | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$workspace" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# cargo-cyclonedx writes beside each Cargo.toml: into a copy, so that the sources stay as they are.
git -C "$workspace" archive HEAD | tar --extract --directory "$copy"
(cd "$copy" && cargo cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --no-build-deps \
  --target "$(rustc -vV | sed -n 's/^host: //p')" --manifest-path mountpoint-fs/Cargo.toml)
sed "s|file://$copy|.|g; s|$copy|.|g" "$copy"/mountpoint-fs/mount-s3_bin.cdx.json >"$folder/mount-s3-$version.cdx.json"
echo "$folder/mount-s3-$version.cdx.json"
