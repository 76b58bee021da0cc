#!/usr/bin/env bash
# A whole small run as a user makes it: train, resume, evaluate, generate, report; JSON where it is promised.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 40000 >text
tiny=(--data text --set model.d_model=32 --set model.heads=2 --set model.d_ff=64 --set model.layers=2 --seq 129 --set train.log_every=5 --set train.eval_windows=4)
fail() { echo "$*" >&2; exit 1; }

"$SPOOL" train enwik8-small "${tiny[@]}" --steps 20 --out whole --json >whole.json 2>whole.err || fail "train: $(cat whole.err)"
for key in '"schema": "spool.train/1"' '"steps": 20' '"bits_per_byte"' '"planned"' '"measured"' '"run": "whole"'; do
  grep -qF "$key" whole.json || fail "train --json lacks $key: $(cat whole.json)"
done
planned=$(grep -oP '"planned": \K[0-9]+' whole.json) measured=$(grep -oP '"measured": \K[0-9]+' whole.json)
[ "$planned" = "$measured" ] || fail "planned $planned bytes, measured $measured"
"$SPOOL" train enwik8-small "${tiny[@]}" --steps 1 --chunk 50 --out one --json >one.json 2>one.err || fail "one step: $(cat one.err)"
planned=$(grep -oP '"planned": \K[0-9]+' one.json) measured=$(grep -oP '"measured": \K[0-9]+' one.json)
[ "$planned" = "$measured" ] || fail "the first step is like any other: planned $planned bytes, measured $measured"
for file in config.toml metrics.jsonl report.txt report.json report.html checkpoints/step-20/model.safetensors checkpoints/step-20/optimizer.safetensors checkpoints/step-20/state.json; do
  [ -s "whole/$file" ] || fail "the run lacks $file"
done

# The process grows by the plan, 1 % and 16 MiB at most: evaluation, checkpoints and the report need no memory beside a step's. A sanitizer has its own.
if ! grep -qE '__(asan|tsan)_init' "$SPOOL"; then
  "$SPOOL" train enwik8-small --data text --steps 3 --set train.eval_windows=4 --out grown --json >grown.json 2>grown.err || fail "train: $(cat grown.err)"
  planned=$(grep -oP '"planned": \K[0-9]+' grown.json) growth=$(grep -oP '"growth": \K[0-9]+' grown.json)
  [ "$growth" -le $((planned + planned / 100 + 16777216)) ] || fail "planned $planned bytes, the process grew by $growth"
  [ "$growth" -ge $((planned * 9 / 10)) ] || fail "planned $planned bytes, but the process grew by $growth only: it is not measured"
  grep -q 'outside the plan' grown/report.txt || fail "the report does not show what is outside the plan"
fi

# A profile changes no bit, accounts for the whole step, and says before the run when it cannot be written.
"$SPOOL" train enwik8-small "${tiny[@]}" --steps 20 --out profiled --profile profile.json --json >profiled.json 2>profiled.err || fail "train --profile: $(cat profiled.err)"
cmp whole/checkpoints/step-20/model.safetensors profiled/checkpoints/step-20/model.safetensors || fail "profiling changes the weights"
grep -q 'profile of 10 steps' profiled.err && grep -q 'between the ops' profiled.err || fail "no table of the profile: $(cat profiled.err)"
python3 - profile.json <<'EOF' || fail "the profile's trace"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
assert {e["ph"] for e in events} == {"X"} and {"linear_attention", "adam", "adamw"} & {e["name"] for e in events}
assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(events, events[1:])), "spans overlap"
EOF
status=0
"$SPOOL" train enwik8-small "${tiny[@]}" --steps 20 --out unprofiled --profile missing/profile.json 2>err || status=$?
[ "$status" -eq 1 ] && [ ! -e unprofiled ] && grep -q 'missing/profile.json' err || fail "--profile into a directory that is not there: exit $status, $(cat err)"

# Stopped after 8 steps and resumed: the same weights, bit for bit, with another number of threads, too.
"$SPOOL" train enwik8-small "${tiny[@]}" --steps 20 --set train.save_every=8 --out halves 2>/dev/null &
wait $!
rm -rf halves/checkpoints/step-20
"$SPOOL" --threads 1 train --config halves/config.toml --resume --out halves 2>resume.err || fail "resume: $(cat resume.err)"
cmp whole/checkpoints/step-20/model.safetensors halves/checkpoints/step-20/model.safetensors || fail "the resumed run has other weights"

"$SPOOL" train enwik8-small "${tiny[@]}" --steps 20 --out whole 2>again.err && fail "a second run into the same directory must be refused"
grep -q -- "--resume" again.err || fail "no hint at --resume: $(cat again.err)"

"$SPOOL" train --resume --out whole 2>done.err && fail "a run that has made its steps has nothing to go on with"
grep -q -- "--steps 40" done.err || fail "no hint at --steps: $(cat done.err)"
"$SPOOL" train --resume --out whole --steps 24 2>more.err || fail "going on without naming the preset: $(cat more.err)"
[ -s whole/checkpoints/step-24/model.safetensors ] || fail "no checkpoint at step 24"

"$SPOOL" eval whole --data text --json | grep -q '"schema": "spool.eval/1"' || fail "eval"
"$SPOOL" generate whole --prompt 12 --tokens 30 --seed 1 >a
"$SPOOL" generate whole --prompt 12 --tokens 30 --seed 1 >b
cmp a b || fail "generation with one seed differs"
[ "$(wc -c <a)" -eq 33 ] || fail "30 bytes after a prompt of 2, and a newline: $(wc -c <a)"
"$SPOOL" report whole | grep -qi peak || fail "report"
"$SPOOL" report whole --trace step.trace --csv step.csv --folded peak.folded >out || fail "report for other tools"
[ ! -s out ] || fail "report with files to write says something on stdout"
peak=$("$SPOOL" report whole --json | grep -oP '"planned": \K[0-9]+')
traced=$(grep '"ph": "C", "name": "total"' step.trace | grep -oP '"bytes": \K[0-9]+' | sort -n | tail -1)
[ "$traced" = "$peak" ] || fail "the trace has a peak of $traced, the report of $peak"
[ "$(awk '{ sum += $NF } END { printf "%d", sum }' peak.folded)" = "$peak" ] || fail "the stacks do not add up to $peak"
head -1 step.csv | grep -qx 'id,lower,upper,size,offset' || fail "head of the CSV: $(head -1 step.csv)"
"$SPOOL" report whole --trace no/such/place/file 2>unwritable.err && fail "a file that cannot be written must be refused"
[ "$(wc -l <unwritable.err)" -eq 1 ] && grep -q "no/such/place/file" unwritable.err || fail "says of it: $(cat unwritable.err)"
"$SPOOL" report whole --json | grep -q 'spool.report/2' || fail "report --json"
"$SPOOL" plan enwik8 --json | grep -q '"parameters": 35033344' || fail "plan"
"$SPOOL" ops --json | grep -q '"linear_attention"' || fail "ops"
