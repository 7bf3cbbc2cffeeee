#!/usr/bin/env bash
# The torture in full: 1,000 kills, 200 power cuts, full, failing and damaged cards, broken
# wires and brokers. Takes about an hour; tests/all has the short version of each.
# Needs root: the cards are loop devices. Everything it mounts goes with it.
set -euo pipefail

usage='usage: tests/torture.sh [TEST [SEED]]   TEST: part of a name, such as kill or power; SEED: another run'

die() {
  printf 'tests/torture.sh: %s\n' "$*" >&2
  exit 1
}

(($# <= 2)) || die "$usage"
case ${1:-} in -*) die "$usage" ;; esac
((EUID == 0)) || die "needs root, for loop devices and mounts"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian keeps them where only root's login shell looks.
PATH=$PATH:/usr/sbin
for tool in cargo mosquitto mkfs.ext4 mount unshare; do
  command -v "$tool" >/dev/null || die "$tool is missing; see .ci/run for the packages"
done
for device in /dev/fuse /dev/loop-control; do
  [[ -e $device ]] || die "$device is missing; in a container it has to be passed in"
done

export TIDEGATE_TORTURE=full
[[ -z ${2:-} ]] || export E2E_SEED=$2
cargo test --release --locked --test torture --no-run

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
# In a mount namespace of its own: whatever happens, nothing stays mounted.
unshare --mount --propagation private \
  cargo test --release --locked --test torture -- --test-threads=1 --nocapture ${1:+"$1"} 2>&1 |
  tee "$log" || failed=1
printf '\n'
grep -h '^figure ' "$log" || true
((failed == 0)) || die "a test failed: see above; E2E_SEED names its seed"
