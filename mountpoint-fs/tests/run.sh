#!/usr/bin/env bash
# Runs every test of the workspace.
#
# End-to-end tests share two cores with mounts, servers and each other. Where no more than AGAIN_MAX of them fail, and nothing
# else does, each is run once more, alone: one that fails again is a failure. One that passes then is named at the end, as a
# defect of the product or of the test that is still to be found; its first failure is in the output above, and in LOG.
set -uo pipefail
cd "$(dirname "$0")/../.."
AGAIN_MAX=2
LOG=target/tests.log
run() { "${CARGO:-cargo}" test --locked --workspace "$@"; }

mkdir -p target
run --no-fail-fast 2>&1 | tee "$LOG" && exit 0
# What cargo says at the end: one line for each program of tests that failed.
failed=$(sed -n 's/^ *`\(-p .*\)`$/\1/p' "$LOG")
# Tests that end-to-end tests run themselves are indented, or quoted.
mapfile -t again < <(sed -n 's/^test \([a-z0-9_:]*\) \.\.\. FAILED$/\1/p' "$LOG")
if [ "$failed" != "-p mountpoint-fs --test e2e" ] || [ ${#again[@]} -eq 0 ] || [ ${#again[@]} -gt $AGAIN_MAX ]; then
  exit 1
fi
echo "once more, alone: ${again[*]}"
run --test e2e -- --exact --test-threads 1 "${again[@]}" || exit 1
echo "UNSTEADY: passed only when run once more: ${again[*]}; what failed first is in $LOG" >&2
