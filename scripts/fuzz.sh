#!/usr/bin/env bash
# Fuzzes every target for a time: scripts/fuzz.sh [SECONDS] [CRATE/TARGET …]. Needs a nightly toolchain and cargo-fuzz.
# A crash stays in <crate>/fuzz/artifacts and fails the script.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
shift || true
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
  for file in */fuzz/fuzz_targets/*.rs; do
    crate=${file%%/*}
    targets+=("$crate/$(basename "$file" .rs)")
  done
fi
# The workspace builds static binaries; the sanitizer needs a dynamic one.
export RUSTFLAGS=''
for target in "${targets[@]}"; do
  printf '== %s for %s s\n' "$target" "$seconds"
  (cd "${target%%/*}" && cargo +nightly fuzz run "${target#*/}" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1)
done
