#!/usr/bin/env bash
# What a start costs beside the kernel's own floor and beside bubblewrap, and what running inside costs.
#   scripts/bench-start.sh              everything, some three minutes
#   scripts/bench-start.sh starts       one part of: starts rate calls idle drift
# ROUNDS, SECONDS_EACH and JAILS change how much is measured; THIRDWALL=FILE takes a binary that is there already.
# The figures are for one machine and one run: compare pair by pair within it.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ "${#parts[@]}" -gt 0 ] || parts=(starts rate calls idle drift)
rounds=${ROUNDS:-200} seconds=${SECONDS_EACH:-20} jails=${JAILS:-10000}

thirdwall=${THIRDWALL:-}
if [ -z "$thirdwall" ]; then
  cargo build --release --quiet --locked -p launcher
  thirdwall=${CARGO_TARGET_DIR:-target}/$(rustc -vV | sed -n 's/^host: //p')/release/thirdwall
fi
thirdwall=$(realpath "$thirdwall")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cc -O2 -Wall -Wextra -o "$work/bench" scripts/bench/floor.c
cc -O2 -static -o "$work/noop" scripts/bench/noop.c
cc -O2 -static -o "$work/calls" scripts/bench/calls.c
printf 'print("hello")\n' > "$work/hello.syn"

bwrap=$(command -v bwrap || true)
jailed="$bwrap --unshare-all --uid 1000 --gid 1000 --die-with-parent --new-session --clearenv --dev /dev --tmpfs /tmp --tmpfs /work --chdir /work --ro-bind $work/noop /noop /noop"
{
  printf 'noop\t%s\n' "$work/noop"
  printf 'exec\t%s exec --policy static --report %s/report -- %s/noop\n' "$thirdwall" "$work" "$work"
  if "$thirdwall" run --sandbox "$work/hello.syn" >/dev/null 2>&1; then
    printf 'run\t%s run --sandbox %s/hello.syn\n' "$thirdwall" "$work"
  else
    printf 'skipped: run --sandbox does not work here\n' >&2
  fi
  if [ -n "$bwrap" ]; then
    printf 'bubblewrap\t%s\n' "$jailed"
  else
    printf 'skipped: bubblewrap is not installed\n' >&2
  fi
} > "$work/contenders"


middle() { sort -g "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# compare NAME DIVISOR OUTSIDE ANY INSIDE: medians of the files.
compare() {
  awk -v name="$1" -v by="$2" -v out="$(middle "$3")" -v any="$(middle "$4")" -v ins="$(middle "$5")" 'BEGIN {
    printf "%-22s %10.1f %10.1f %10.1f %+9.1f %%\n", name, out / by, any / by, ins / by, (ins / out - 1) * 100 }'
}

for part in "${parts[@]}"; do
  printf '\n'
  case $part in
    starts) "$work/bench" starts "$rounds" "$work/contenders" ;;
    rate) "$work/bench" rate 2 "$seconds" "$work/contenders" ;;
    calls)
      # The program reports its own time, so that the start of the jail is not in the figure.
      printf '%-22s %10s %10s %10s %10s   (ms, in the program)\n' 'one million calls' outside 'any filter' inside 'in/out'
      for call in getppid read; do
        : > "$work/out"; : > "$work/any"; : > "$work/ins"
        for _ in 1 2 3 4 5 6 7 8 9; do
          "$work/calls" "$call" < /dev/null >> "$work/out"
          "$work/calls" "$call" filtered < /dev/null >> "$work/any"
          "$thirdwall" exec --policy static --wall none --cpu none -- "$work/calls" "$call" < /dev/null >> "$work/ins"
        done
        compare "$call" 1000 "$work/out" "$work/any" "$work/ins"
      done
      if [ -x /usr/bin/python3 ]; then
        # CPU time of the whole process: the interpreter's start, imports, and a loop.
        echo 'import json, re, time; sum(range(3000000)); print(time.process_time())' > "$work/loop.py"
        : > "$work/out"; : > "$work/ins"
        for _ in 1 2 3 4 5 6 7 8 9; do
          /usr/bin/python3 -I "$work/loop.py" >> "$work/out"
          "$thirdwall" exec --policy python -- /usr/bin/python3 -I -c "$(cat "$work/loop.py")" >> "$work/ins"
        done
        compare 'python3, start and loop' 0.001 "$work/out" "$work/out" "$work/ins"
      else
        printf 'skipped: /usr/bin/python3 is not installed\n'
      fi
      ;;
    idle)
      "$thirdwall" exec --policy static --wall none --cpu none -- "$work/calls" wait < /dev/null &
      supervisor=$!
      sleep 1
      ticks() { awk '{ print $14 + $15 }' "/proc/$supervisor/stat"; }
      before=$(ticks)
      sleep 10
      awk '/^Private/ { sum += $2 } END { printf "supervisor             %10d KiB private memory\n", sum }' \
        "/proc/$supervisor/smaps_rollup"
      printf 'idle for 10 s          %10d ticks\n' "$(($(ticks) - before))"
      kill "$supervisor"
      wait "$supervisor" || true
      ;;
    drift) "$work/bench" drift "$work/contenders" exec "$jails" ;;
    *) printf 'no such part: %s\n' "$part" >&2; exit 2 ;;
  esac
done
