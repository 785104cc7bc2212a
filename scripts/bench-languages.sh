#!/bin/sh
# The same ten programs in Synsema or SCUA, Lua 5.4 and Python 3, in one run: whole-process times, best of several.
#
#   scripts/bench-languages.sh [PROGRAM…]               Synsema
#   OURS=scua scripts/bench-languages.sh [PROGRAM…]     SCUA
#
# Needs lua5.4 and python3 (`apt-get install lua5.4 python3`). The first column is the runtime in one process,
# metering on, without a jail; `THIRDWALL=path/to/thirdwall` measures `thirdwall run` instead, jail included.
set -eu
cd "$(dirname "$0")/.."
ours=${OURS:-synsema}
case $ours in synsema) extension=syn ;; scua) extension=scua ;; *) echo "OURS is synsema or scua" >&2; exit 2 ;; esac
if [ -z "${THIRDWALL:-}" ]; then
    cargo build --quiet --release -p runtime --example "$extension"
    folder=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    command=$(find "$folder" -path "*release/examples/$extension" -type f | head -n 1)
else
    command="$THIRDWALL run"
fi
exec python3 - "$command" "$ours" "$extension" "$@" <<'PYTHON'
import math, os, subprocess, sys, time

ROUNDS = 3
PROGRAMS = ["fib", "loops", "sieve", "words", "mandelbrot", "pipeline", "queens", "strings", "roundtrip", "sort"]
command, name, extension = sys.argv[1].split(), sys.argv[2], sys.argv[3]
folder = "runtime/benches/programs"

def best(command, file):
    path = f"{folder}/{file}"
    if not os.path.exists(path):
        return None, None
    fastest, out = math.inf, b""
    for _ in range(ROUNDS):
        start = time.perf_counter()
        done = subprocess.run(command + [path], capture_output=True, timeout=120)
        fastest = min(fastest, time.perf_counter() - start)
        out = done.stdout
        if done.returncode != 0:
            sys.exit(f"{path}: {done.stderr.decode()}")
    return fastest * 1000, out.split()

print(f"{'program':12}{name:>10}{'lua5.4':>10}{'python3':>10}{'of lua':>8}{'of python':>11}")
ratios = []
for program in sys.argv[4:] or PROGRAMS:
    ours, said = best(command, program + "." + extension)
    lua, lua_said = best(["lua5.4"], program + ".lua")
    python, python_said = best(["python3"], program + ".py")
    if lua_said is not None and said != lua_said or [w.lower() for w in python_said] != [w.lower() for w in said]:
        sys.exit(f"{program}: the languages disagree: {said} {lua_said} {python_said}")
    if lua:
        ratios.append(ours / lua)
    of_lua = f"{ours / lua:8.2f}" if lua else "       –"
    lua_text = f"{lua:10.0f}" if lua else "         –"
    print(f"{program:12}{ours:10.0f}{lua_text}{python:10.0f}{of_lua}{ours / python:11.2f}")
if ratios:
    print(f"geometric mean of lua5.4: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
PYTHON
