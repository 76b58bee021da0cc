#!/usr/bin/env bash
# `spool plan` by name: what it says, as text and as JSON, and what it refuses.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() { echo "$*" >&2; exit 1; }
number() { grep -oP "\"$1\": \K[0-9]+" "$2" | head -1; }

"$SPOOL" plan llama-2-7b --seq 4096 >7b.txt || fail "plan llama-2-7b"
grep -qx 'llama-2-7b: 6,738,415,616 parameters' 7b.txt || fail "parameters: $(head -1 7b.txt)"
"$SPOOL" plan llama-2-7b --json >7b.json
[ "$(number closed_form 7b.json)" = "$(number planned 7b.json)" ] || fail "closed form and plan differ: $(cat 7b.json)"
"$SPOOL" plan llama-2-7b --set train.recompute=block --json >block.json
[ "$(number planned block.json)" -lt "$(number planned 7b.json)" ] || fail "recomputing every block saves nothing: $(cat block.json)"
"$SPOOL" presets | grep -q '^ring-65b ' || fail "presets lists no models"

"$SPOOL" plan --article >article.txt || fail "plan --article"
for bytes in 1,396,703,232 1,937,768,448 137,086,631,936; do grep -q "$bytes" article.txt || fail "the article's example lacks $bytes"; done
"$SPOOL" plan llama-2-7b --article --json | grep -q '"schema": "spool.article/1"' || fail "plan --article --json"
"$SPOOL" plan llama-2-70b --article --batch 1 --seq 4096 --dtype f32 >/dev/null || fail "the article's formulas for another model"

# refused TEXT ARGS...: exit 2 and one line that says TEXT.
refused() {
  local text="$1" status=0
  shift
  "$SPOOL" "$@" >stdout 2>stderr || status=$?
  if [ "$status" -ne 2 ] || ! grep -qF -- "$text" stderr || [ "$(grep -c . stderr)" -ne 1 ] || [ -s stdout ]; then
    fail "spool $*: exit $status (expected 2), expected text: $text; $(cat stderr)"
  fi
}
refused "did you mean 'llama-2-7b'?" plan lama-2-7b
refused "the models are llama-2-7b" plan
refused "spool plan llama-2-7b" train llama-2-7b
refused "is about LLaMA" plan enwik8 --article
refused "the model has 4096 positions" plan llama-2-7b --seq 4097
