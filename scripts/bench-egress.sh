#!/bin/sh
# Figures of the egress: throughput, short connections, time to the first byte, memory. Loopback only.
# Usage: scripts/bench-egress.sh [THIRDWALL]   (a release build; needs a C compiler)
set -eu
cd "$(dirname "$0")/.."
tw=${1:-$(ls -t target/*/release/thirdwall target/release/thirdwall 2>/dev/null | head -1)}
folder=$(mktemp -d)
port=9137
cc -O2 -pthread -static -o "$folder/load" scripts/bench-egress.c
"$folder/load" server $port &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$folder"' EXIT
sleep 0.3

direct() { "$folder/load" "$1" $port; }
# The address is named literally, so that loopback may be dialled; inside, the same address leads to the egress.
jailed() {
    "$tw" exec --policy static --cap-set "stdout,file.read=$folder/*,net=127.0.0.1:$port" \
        --wall 60s --cpu 60s -- "$folder/load" "$1" $port
}
# Both take turns, and the medians of nine turns are compared: single streams differ by a factor of two.
turns() {
    for i in 1 2 3 4 5 6 7 8 9; do
        direct "$1" >>"$folder/direct.$1"
        jailed "$1" >>"$folder/jailed.$1"
    done
    a=$(sort -n "$folder/direct.$1" | sed -n 5p) b=$(sort -n "$folder/jailed.$1" | sed -n 5p)
}

echo "machine: $(nproc) processors, Linux $(uname -r)"
turns stream
echo "one stream of 1 GiB:      direct $a MB/s, through the egress $b MB/s: $((b * 100 / a)) % (goal 80 %)"
turns short
echo "short connections:        direct $a/s, through the egress $b/s (goal 1000/s)"
turns first
echo "connect to first byte:    direct $a us, through the egress $b us: $((b - a)) us more (goal 150)"

jailed hold >"$folder/held" &
sleep 2
grep -q held "$folder/held"
# The function's own shell stands between.
supervisor=$(pgrep -P $!)
for child in $(pgrep -P $supervisor); do
    # Of the supervisor's children the egress alone is in our network.
    if [ "$(readlink "/proc/$child/ns/net")" = "$(readlink /proc/self/ns/net)" ]; then egress=$child; fi
done
kib() { awk '/^Pss:/ { print $2 }' "/proc/$1/smaps_rollup"; }
private() { awk '/^Private_/ { sum += $2 } END { print sum }' "/proc/$1/smaps_rollup"; }
echo "200 open connections:     supervisor $(kib $supervisor) KiB, egress $(kib "$egress") KiB, \
of which its own $(private "$egress") KiB (goal: less than 8192 together)"
kill $supervisor
wait $supervisor 2>/dev/null || true
