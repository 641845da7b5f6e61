#!/usr/bin/env bash
# Plants each fault of this folder in turn. The tests that its first line names must find it.
set -euo pipefail
cd "$(dirname "$0")/../../.."
git diff --quiet || { echo "commit your changes first: the faults are planted in this tree" >&2; exit 1; }
trap 'git checkout --quiet -- mountpoint-fs mountpoint-client mountpoint-crt-sys' EXIT
log=target/planted.log
missed=0
for fault in ${FAULTS:-mountpoint-fs/tests/planted/*.patch}; do
  tests=$(sed -n '1s/^Fails: //p' "$fault")
  git apply "$fault"
  cargo test --locked --workspace --lib --no-run > "$log" 2>&1 || { cat "$log"; exit 1; }
  if INTERLEAVINGS=${INTERLEAVINGS:-1000} cargo test --locked --workspace --lib -- "$tests" > "$log" 2>&1; then
    echo "NOT FOUND by $tests: $fault"
    missed=1
  else
    echo "found by $tests: $fault"
  fi
  git apply --reverse "$fault"
done
exit "$missed"
