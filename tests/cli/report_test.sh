#!/usr/bin/env bash
# The report of a run for other tools and against another run's: the schema, PyTorch's snapshot, the difference, and a limit that a step exceeds.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 40000 >text
tiny=(llama-tiny --data text --set model.hidden_size=32 --set model.num_attention_heads=2 --set model.num_key_value_heads=1 --set model.intermediate_size=48
      --set model.num_hidden_layers=3 --seq 65 --batch 2 --steps 2 --set train.eval_windows=2)
fail() { echo "$*" >&2; exit 1; }
"$SPOOL" train "${tiny[@]}" --out plain 2>err || fail "train: $(cat err)"
"$SPOOL" train "${tiny[@]}" --out twin 2>err || fail "train again: $(cat err)"
"$SPOOL" train "${tiny[@]}" --set train.recompute=block --out recomputed 2>err || fail "train with scopes: $(cat err)"
peak_of() { "$SPOOL" report "$1" --json | grep -oP '"planned": \K[0-9]+'; }
plain=$(peak_of plain) recomputed=$(peak_of recomputed)

# The difference of two runs.
"$SPOOL" report plain twin >same || fail "report of two runs"
[ "$(cat same)" = "plain and twin: the same" ] || fail "two equal runs: $(cat same)"
"$SPOOL" report plain twin --json | grep -q '"same": true' || fail "two equal runs as JSON"
"$SPOOL" report plain recomputed >differ || fail "report of two runs that differ"
row() { awk -v name="$1" '$1 == name { gsub(",", ""); print $2, $3, $4; exit }' differ; }
[ "$(row planned)" = "$plain $recomputed $((recomputed - plain))" ] || fail "planned peaks $plain and $recomputed: $(cat differ)"
[ "$(row measured)" = "$(row planned)" ] || fail "measured peaks: $(cat differ)"
! grep -qE '^  (parameter|optimizer) ' differ || fail "what is the same is listed: $(cat differ)"
"$SPOOL" report plain recomputed --json | grep -q "\"difference\": $((recomputed - plain))" || fail "difference as JSON"
sed -i 's/spool.report.2/spool.report\/1/' twin/report.json
status=0
"$SPOOL" report plain twin >out 2>err || status=$?
[ "$status" -eq 1 ] && [ ! -s out ] && grep -q 'twin/report.json: is of the version "spool.report/1"' err || fail "a report of another version: exit $status, $(cat err)"
status=0
"$SPOOL" report plain recomputed --trace step.trace >out 2>err || status=$?
[ "$status" -eq 2 ] && [ ! -e step.trace ] || fail "a trace of two runs: exit $status, $(cat err)"

# A limit: nothing is trained or written, and the report ends where the bytes run out.
for limit in $((plain - 1)) "$((plain / 1024 - 1))KiB" 100KiB 1; do
  status=0
  "$SPOOL" train "${tiny[@]}" --limit "$limit" --out limited >out 2>err || status=$?
  [ "$status" -eq 1 ] && [ ! -s out ] && [ ! -e limited ] || fail "--limit $limit: exit $status, $(cat err)"
  for words in "--limit: a step needs $plain B" "does not fit" "Alive at the peak" "nothing was trained" "--budget"; do
    grep -qF -- "$words" <(tr -d "," <err) || fail "--limit $limit does not say '$words': $(cat err)"
  done
done
"$SPOOL" train "${tiny[@]}" --limit "$plain" --out enough 2>err || fail "a limit that is enough: $(cat err)"
for limit in 2GB lots -1 0 2GiBs nan 1e99TiB; do
  status=0
  "$SPOOL" train "${tiny[@]}" "--limit=$limit" --out limited >out 2>err || status=$?
  [ "$status" -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -e limited ] && grep -q -- "--limit" err || fail "--limit $limit: exit $status, $(cat err)"
done

# The system refuses: the checkpoint that is there stays, and the report says what was wanted.
cp -r plain refused
status=0
(ulimit -v 600000 && OMP_NUM_THREADS=1 "$SPOOL" --threads 1 train --resume --out refused --steps 4 --set data.batch=3000 >out 2>err) || status=$?
if [ -z "${ASAN_OPTIONS:-}" ] && ! ldd "$SPOOL" | grep -q 'lib[at]san'; then
  [ "$status" -eq 1 ] && grep -q "with --resume" err && grep -q "Alive at the peak" err || fail "under ulimit -v: exit $status, $(head -20 err)"
  cmp plain/checkpoints/step-2/model.safetensors refused/checkpoints/step-2/model.safetensors || fail "the checkpoint has changed"
fi

# Python's own readers.
command -v python3 >/dev/null || exit 0
"$SPOOL" report recomputed --snapshot step.pickle >out || fail "report --snapshot"
[ ! -s out ] || fail "report --snapshot says something on stdout"
python3 - step.pickle "$recomputed" <<'PYTHON' || fail "the snapshot"
import pickle, sys
snapshot, peak = pickle.load(open(sys.argv[1], "rb")), int(sys.argv[2])
(trace,) = snapshot["device_traces"]
blocks = {}  # at the end, as a viewer finds them: those that the trace did not make were there from the start
for segment in snapshot["segments"]:
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at, "blocks follow each other"
        at += block["size"]
        if block["state"] == "active_allocated":
            blocks[block["address"]] = block["size"]
    assert at == segment["address"] + segment["total_size"]
made, live = set(), 0
for e in trace:
    assert e["frames"] and all(f["name"] and f["filename"] for f in e["frames"]), e
    if e["action"] == "alloc": made.add(e["addr"])
    elif e["action"] == "free_completed":
        if e["addr"] in made: made.remove(e["addr"])
        else: live += e["size"]
live += sum(size for address, size in blocks.items() if address not in made)
assert made <= set(blocks), "what the trace leaves is in a segment"
highest, alive = live, {}
for e in trace:
    if e["action"] == "alloc":
        live += e["size"]
        assert all(e["addr"] + e["size"] <= a or a + s <= e["addr"] for a, s in alive.items()), "two live blocks overlap"
        alive[e["addr"]] = e["size"]
    elif e["action"] == "free_completed":
        live -= e["size"]
        alive.pop(e["addr"], None)
    highest = max(highest, live)
assert highest == peak, (highest, peak)
assert any(f["name"] == "linear" for e in trace for f in e["frames"])
assert any(f["filename"] == "model.layers.1.mlp" and f["name"] == "mlp" for e in trace for f in e["frames"])
PYTHON
python3 -W ignore - "$SPOOL_SOURCE_DIR/autograd/report/report.schema.json" plain/report.json recomputed/report.json <<'PYTHON' || fail "the schema"
import copy, json, sys
try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is missing: reports are not held against their schema")
    sys.exit(0)
schema = json.load(open(sys.argv[1]))
check = jsonschema.Draft202012Validator(schema).is_valid
jsonschema.Draft202012Validator.check_schema(schema)
for file in sys.argv[2:]:
    report = json.load(open(file))
    jsonschema.validate(report, schema)
    for key in report:
        for wrong in [{k: v for k, v in report.items() if k != key}, {**report, key: "?" if key != "title" else 1} if key not in ("departure",) else {**report, key: 1}]:
            assert not check(wrong), f"{key}: a fault is not seen"
    assert not check({**report, "more": 1})
PYTHON
