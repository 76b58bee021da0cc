#!/usr/bin/env bash
# Bad input: the exit code, one line on stderr that names the culprit, and nothing half-written.
set -u
dir=$(mktemp -d)
trap 'umount "$dir/full" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failures=0
seq 1 40000 >text
: >empty
printf 'short' >short
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 100000000\n' 0 >pointer
tiny=(--set model.d_model=16 --set model.heads=2 --set model.d_ff=16 --set model.layers=1 --seq 65 --steps 2)

# refused CODE TEXT ARGS...: `spool train` must exit with CODE, say TEXT on one line, and leave no run directory.
refused() {
  local code="$1" text="$2" status=0
  shift 2
  "$SPOOL" train enwik8-small --out out "$@" >stdout 2>stderr || status=$?
  local lines
  lines=$(grep -c . stderr)
  if [ "$status" -ne "$code" ] || ! grep -qF -- "$text" stderr || [ "$lines" -ne 1 ] || [ -s stdout ] || [ -e out ]; then
    echo "spool train $*: exit $status (expected $code), $lines lines, expected text: $text" >&2
    cat stderr >&2
    ls -d out* >&2
    failures=$((failures + 1))
  fi
  rm -rf out
}

refused 1 "no-such-file" "${tiny[@]}" --data no-such-file
refused 1 "empty" "${tiny[@]}" --data empty
refused 1 "short" "${tiny[@]}" --data short
refused 1 "git-lfs" "${tiny[@]}" --data pointer
refused 2 "lerning_rate" --data text --set optim.lerning_rate=1
refused 2 "optim.lr" --data text --set optim.lr=fast
refused 2 "chunk" "${tiny[@]}" --data text --chunk 0
refused 2 "steps" --data text --steps -3
refused 2 "steps" --data text --steps 0
refused 2 "optim.lr" --data text --set optim.lr=nan
"$SPOOL" train enwik8-smal >/dev/null 2>stderr
[ $? -eq 2 ] && grep -q "did you mean 'enwik8-small'" stderr || { echo "the nearest preset is not named" >&2; cat stderr >&2; failures=$((failures + 1)); }
"$SPOOL" train enwik8-small --no-such-option >/dev/null 2>&1
[ $? -eq 2 ] || { echo "an unknown option must exit 2" >&2; failures=$((failures + 1)); }

# A full disk: exit 1, one line that names the file, and no checkpoint that is not whole.
mkdir full
if mount -t tmpfs -o size=64k tmpfs full 2>/dev/null; then
  "$SPOOL" train enwik8-small --steps 2 --seq 65 --set model.layers=1 --data text --out full/run >stdout 2>stderr
  status=$?
  if [ "$status" -ne 1 ] || ! grep -q "No space left" stderr || ls full/run/checkpoints 2>/dev/null | grep -q .; then
    echo "full disk: exit $status" >&2
    cat stderr >&2
    ls -R full >&2
    failures=$((failures + 1))
  fi
fi
exit $((failures > 0))
