#!/usr/bin/env bash
# `spool ops`: the table, one op, the reference page as it is committed, bad names.
set -euo pipefail
fail() { echo "$*" >&2; exit 1; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$SPOOL" ops >"$work/table"
"$SPOOL" ops --json | python3 -c '
import json, sys
ops = json.load(sys.stdin)["ops"]
lines = open(sys.argv[1]).read().splitlines()
assert [o["name"] for o in ops] == [l.split()[0] for l in lines], "table and JSON differ"
assert all(o["differentiable"] == ("no gradient:" not in l) for o, l in zip(ops, lines))' "$work/table"

"$SPOOL" ops gather | grep -q 'Tensor gather(const Tensor& x, int axis, const Tensor& index);' || fail "no signature of gather"
status=0
"$SPOOL" ops gathre >"$work/out" 2>"$work/err" || status=$?
[ "$status" -eq 2 ] && [ ! -s "$work/out" ] && grep -q "did you mean 'gather'" "$work/err" || fail "a wrong name: status $status, $(cat "$work/err")"

"$SPOOL" ops --markdown >"$work/page"
diff -u "$SPOOL_SOURCE_DIR/ops/REFERENCE.md" "$work/page" >"$work/difference" ||
  fail "ops/REFERENCE.md is stale; write it anew with: spool ops --markdown > ops/REFERENCE.md
$(head -n 20 "$work/difference")"
