#!/usr/bin/env bash
# Builds the agent for ARM boards and replays a trace natively and under qemu-user:
# the same trace must give the same bytes on every machine. Prints the stripped
# sizes as `figure` lines. Needs qemu-user-static and what boards/build needs.
set -euo pipefail

usage() {
  cat <<'U'
usage: tests/boards.sh [--trace FILE] [--config FILE] [BOARD...]
       defaults: tests/fixtures/replay/climate.trace.jsonl, climate.toml beside it,
       and the boards generic-aarch64 and generic-armv7
U
}

die() {
  printf 'tests/boards.sh: %s\n' "$*" >&2
  exit 1
}

size_max_mib=6 # the budget of every target

trace='' config=''
names=()
while (($# > 0)); do
  case $1 in
    --trace | --config)
      (($# >= 2)) || die "$1 needs a file"
      if [[ $1 == --trace ]]; then trace=$(realpath -m "$2"); else config=$(realpath -m "$2"); fi
      shift 2
      ;;
    -h | --help) usage && exit ;;
    -*) usage >&2 && exit 2 ;;
    *) names+=("$1") && shift ;;
  esac
done
((${#names[@]} > 0)) || names=(generic-aarch64 generic-armv7)

cd "$(dirname "${BASH_SOURCE[0]}")/.."
trace=${trace:-$PWD/tests/fixtures/replay/climate.trace.jsonl}
config=${config:-$PWD/tests/fixtures/replay/climate.toml}
[[ -r $trace ]] || die "the trace is missing: $trace"
[[ -r $config ]] || die "the configuration is missing: $config"
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# How to run a target's binary here: its emulator and the root with its libc.
emulator() { # TARGET
  case $1 in
    aarch64-unknown-linux-gnu) echo qemu-aarch64-static /usr/aarch64-linux-gnu ;;
    armv7-unknown-linux-gnueabihf) echo qemu-arm-static /usr/arm-linux-gnueabihf ;;
    *) die "no emulator is known for target $1" ;;
  esac
}

board_value() { # BOARD KEY
  boards/build "$1" show | sed -n "s/^$2 = //p"
}

unit_has() { # BOARD LINE
  grep -qxF -- "$2" systemd/tidegate.service ||
    die "systemd/tidegate.service does not fit boards/$1.toml: no line \`$2\`"
}

# The unit is written for every board, so each board's values must be those in it.
check_unit() { # BOARD
  local program config
  program=$(board_value "$1" paths.binary) config=$(board_value "$1" paths.config)
  unit_has "$1" "MemoryMax=$(board_value "$1" memory.agent_mib)M"
  unit_has "$1" "ExecStart=$program run --config $config"
  unit_has "$1" "ExecStartPre=$program check --config $config"
  unit_has "$1" "StateDirectory=$(basename "$(board_value "$1" paths.state)")"
  unit_has "$1" "RuntimeDirectory=$(basename "$(board_value "$1" paths.runtime)")"
}

replay() { # OUT COMMAND...
  local out=$1
  shift
  "$@" replay "$trace" --config "$config" >"$out" || die "replay failed: $*"
  [[ -s $out ]] || die "replay printed nothing: $*"
}

# A board that nobody builds is still read, so a mistake in it shows.
boards/build list
while read -r name _; do
  check_unit "$name"
done < <(boards/build list)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cargo build --release --locked --bin tidegate
replay "$scratch/native" "$target_dir/release/tidegate"
printf 'ok: native: %s lines\n' "$(wc -l <"$scratch/native")"

for name in "${names[@]}"; do
  target=$(board_value "$name" target)
  runner=$(emulator "$target")
  read -r qemu sysroot <<<"$runner"
  figure=$(boards/build "$name" binary)
  # Only now: boards/build may have installed the target's libc.
  command -v "$qemu" >/dev/null || die "$qemu is missing; on Debian: apt-get install qemu-user-static"
  [[ -d $sysroot ]] || die "$sysroot is missing, the root with the libc of $target"
  replay "$scratch/$name" "$qemu" -L "$sysroot" "$target_dir/boards/$name/tidegate"
  cmp "$scratch/native" "$scratch/$name" || die "$name replays differently from this machine"
  printf 'ok: %s: the same bytes as native\n%s\n' "$name" "$figure"
  awk -v max="$size_max_mib" '{ exit !($3 <= max) }' <<<"$figure" ||
    die "$name: the binary is over its budget of $size_max_mib MiB"
done
