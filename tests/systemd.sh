#!/usr/bin/env bash
# Holds the unit to what it promises: systemd reads every line of it without a
# warning, also with its drop-ins, and its exposure is at most 2.0 of 10.
# Needs systemd-analyze, but no running systemd. Skips nothing.
set -euo pipefail

usage='usage: tests/systemd.sh [TIDEGATE]   TIDEGATE: a built binary; then the example configuration is checked too'
exposure_max=20 # systemd-analyze counts in tenths

die() {
  printf 'tests/systemd.sh: %s\n' "$*" >&2
  exit 1
}

(($# <= 1)) || die "$usage"
case ${1:-} in -*) die "$usage" ;; esac
command -v systemd-analyze >/dev/null ||
  die "systemd-analyze is missing; on Debian: apt-get install systemd"

tidegate=''
if (($# == 1)); then
  tidegate=$(realpath "$1")
  [[ -x $tidegate ]] || die "$1: no such program"
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unit=systemd/tidegate.service

# A root of its own, so that nothing has to be installed on this machine: its
# systemd's units, ours, and a stand-in for the program.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
units=''
for units in /usr/lib/systemd/system /lib/systemd/system; do
  [[ ! -e $units/multi-user.target ]] || break
done
[[ -e $units/multi-user.target ]] || die "the units of systemd itself are missing"
mkdir -p "$root/usr/lib/systemd" "$root/usr/bin" "$root/etc/systemd/system"
cp -a "$units" "$root/usr/lib/systemd/system"
install -m 755 /bin/true "$root/usr/bin/tidegate"
install -m 644 "$unit" "$root/usr/lib/systemd/system/"

verify() { # WHAT
  local output
  # --recursive-errors: an unknown key is otherwise only a warning, and exit 0.
  if ! output=$(systemd-analyze verify --man=no --recursive-errors=yes --root="$root" \
    tidegate.service 2>&1) || [[ -n $output ]]; then
    die "$1 does not verify:"$'\n'"$output"
  fi
  printf 'ok: %s verifies\n' "$1"
}

verify "$unit"
for drop_in in systemd/tidegate.service.d/*.conf; do
  install -D -m 644 "$drop_in" "$root/etc/systemd/system/tidegate.service.d/$(basename "$drop_in")"
  verify "$unit with $drop_in"
done

if ! exposure=$(systemd-analyze security --offline=true --threshold="$exposure_max" "$unit" 2>&1); then
  die "$unit is more exposed than $exposure_max tenths:"$'\n'"$exposure"
fi
printf 'ok: %s\n' "$(grep -o 'Overall exposure level.*[0-9]' <<<"$exposure")"

# What the unit promises to the machine it runs on, which verify cannot know.
while read -r line; do
  grep -qxF "$line" "$unit" || die "$unit: the line \`$line\` is gone"
done <<'KEYS'
Type=notify
NotifyAccess=main
StartLimitIntervalSec=0
Restart=always
WatchdogSec=30
TimeoutStopSec=15
DynamicUser=yes
StateDirectory=tidegate
RuntimeDirectory=tidegate
ConfigurationDirectory=tidegate
KEYS
printf 'ok: %s restarts for ever, under a watchdog, as nobody in particular\n' "$unit"

if [[ -n $tidegate ]]; then
  "$tidegate" check --config systemd/tidegate.toml || die "systemd/tidegate.toml is not accepted"
  printf 'ok: systemd/tidegate.toml is accepted\n'
fi
