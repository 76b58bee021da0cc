#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing: install-packages.sh build [tests] [tsan] [extras]. Does nothing when all are there.
# SPOOL_NO_INSTALL=1 only checks.
set -euo pipefail
list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"

fail() {
  echo "install-packages: $*" >&2
  exit 1
}

command -v dpkg-query >/dev/null || fail "this is not Debian; install what $list names and set SPOOL_NO_INSTALL=1"
missing=()
for purpose in "$@"; do
  while read -r of package _; do
    [ "$of" = "$purpose" ] || continue
    # "a clean installed state" also for packages whose name another package provides
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done <"$list"
done
[ ${#missing[@]} -eq 0 ] && exit 0
[ -z "${SPOOL_NO_INSTALL:-}" ] || fail "missing packages: ${missing[*]}"

root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "needs root (or sudo) to install: ${missing[*]}"
  root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
apt() {
  ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "apt-get $1 failed"
  }
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
