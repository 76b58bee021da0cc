# Sourced by the run scripts: quiet builds of a preset, and one clear line when something fails.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

say() { echo "[$script] $*"; }
fail() {
  echo "[$script] failed: $*" >&2
  exit 1
}

# quietly LOG COMMAND...: runs it with its output in LOG; shows the end of LOG when it fails.
quietly() {
  local log="$1"
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return 0
  grep -nE '(error|Error|FAILED|undefined reference)' "$log" | head -n 20 >&2 || true
  tail -n 30 "$log" >&2
  return 1
}

# build PRESET [TARGET...]: configures and builds.
build() {
  local preset="$1" began=$SECONDS
  shift
  say "building the $preset preset (log: build/$preset/build.log)"
  quietly "build/$preset/configure.log" cmake --preset "$preset" || fail "configuring the $preset preset, see build/$preset/configure.log"
  quietly "build/$preset/build.log" cmake --build --preset "$preset" ${1:+--target "$@"} || fail "building the $preset preset, see build/$preset/build.log"
  say "built the $preset preset in $((SECONDS - began)) s"
}
