#!/usr/bin/env bash
# The kernel matrix: boots Debian's own kernels under qemu (TCG) with a root of a few files, runs jails in them as root,
# as a user with a lent cgroup and as a plain user, and prints a table.
#   scripts/kernels.sh               6.1 and 6.12
#   scripts/kernels.sh 6.1           one of them
# THIRDWALL=FILE takes a binary that is there already. Kernels are kept in ${XDG_CACHE_HOME:-~/.cache}/thirdwall.
# Exit: 0 all cells pass; 1 a cell failed; 77 something is not to be had (and nothing failed).
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ "${#versions[@]}" -gt 0 ] || versions=(6.1 6.12)

lacking() {
  printf 'skipped: %s\n' "$1"
  exit 77
}
[ "$(uname -m)" = x86_64 ] || lacking 'the matrix is for x86-64'
for tool in qemu-system-x86_64 cpio busybox cc apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || lacking "$tool is not installed"
done
# The guest has no libraries.
ldd "$(command -v busybox)" >/dev/null 2>&1 && lacking 'busybox is not the static one (package busybox-static)'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kept=${XDG_CACHE_HOME:-$HOME/.cache}/thirdwall/kernels
mkdir -p "$kept"

binary=${THIRDWALL:-}
if [ -z "$binary" ]; then
  cargo build --quiet --locked -p launcher
  binary=${CARGO_TARGET_DIR:-target}/$(rustc -vV | sed -n 's/^host: //p')/debug/thirdwall
fi
mkdir -p "$work/root/bin"
cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$binary" "$work/root/thirdwall"
strip "$work/root/thirdwall"
cc -O2 -static -o "$work/root/probe" scripts/kernels/probe.c
cp scripts/kernels/guest.sh "$work/root/"
cp scripts/kernels/init.sh "$work/root/init"
chmod 755 "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc) > "$work/initramfs"

# The newest cloud kernel of a version, signed as it is installed.
newest() {
  apt-cache search --names-only "^linux-image-${1//./\\.}\\.[0-9].*-cloud-amd64\$" | cut -d' ' -f1 | sort -V | tail -n1
}

# Sets `kernel` to the image of that kernel; fails if the distribution has none.
fetch() {
  local version=$1 package image
  package=$(newest "$version")
  if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq || true
    package=$(newest "$version")
  fi
  if [ -n "$package" ]; then
    image=$kept/$package
    if [ ! -f "$image" ]; then
      (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package") || return 1
      dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -xO --wildcards './boot/vmlinuz-*' > "$image.part"
      mv "$image.part" "$image"
      rm -f "$work/$package"_*.deb
    fi
  else
    # Without package lists one that was kept before does.
    image=$(find "$kept" -name "linux-image-$version.*" ! -name '*.part' | sort -V | tail -n1)
    [ -n "$image" ] || return 1
  fi
  kernel=$image
}

# The Landlock ABI of a kernel version (landlock(7), "Versions").
abi_of() {
  case $1 in
    6.1) echo 2 ;;
    6.12) echo 6 ;;
    *) printf 'no Landlock ABI is known for %s: add it to scripts/kernels.sh\n' "$1" >&2; exit 1 ;;
  esac
}

# boot KERNEL LOG PARAMETERS: the guest's console goes to LOG.
boot() {
  timeout 400 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -display none -no-reboot \
    -serial "file:$2" -kernel "$1" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 loglevel=3 $3" </dev/null
}

failed=0 skipped=0
printf '%-22s %-12s %-52s %s\n' kernel caller check result
for version in "${versions[@]}"; do
  if ! fetch "$version"; then
    printf 'skipped: no package linux-image-%s.*-cloud-amd64 is to be had\n' "$version"
    skipped=1
    continue
  fi
  abi=$(abi_of "$version")
  for checks in full no-landlock; do
    parameters="checks=$checks abi=$abi"
    [ "$checks" = full ] || parameters="$parameters lsm=yama"
    name=$(basename "$kernel" | sed 's/^linux-image-//; s/-cloud-amd64$//')
    boot "$kernel" "$work/log" "$parameters" || true
    tr -d '\r' < "$work/log" > "$work/lines"
    if ! grep -q '^cells|end$' "$work/lines"; then
      printf '%-22s %-12s %-52s FAIL: the guest did not come to its end\n' "$name" - "$checks"
      tail -n 40 "$work/lines"
      failed=1
    fi
    while IFS='|' read -r _ caller check result why; do
      [ -n "$check" ] || continue
      if [ "$result" = pass ]; then
        printf '%-22s %-12s %-52s pass\n' "$name" "$caller" "$check"
      else
        printf '%-22s %-12s %-52s FAIL: %s\n' "$name" "$caller" "$check" "$why"
        failed=1
      fi
    done < <(grep '^cell|' "$work/lines")
  done
done
[ "$failed" = 0 ] || exit 1
[ "$skipped" = 0 ] || exit 77
