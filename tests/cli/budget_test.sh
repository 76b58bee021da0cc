#!/usr/bin/env bash
# A budget: the choice fits, is what training uses, gives the losses of the plain way, and is refused in one line where nothing fits.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 40000 >text
tiny=(llama-tiny --set model.hidden_size=32 --set model.num_attention_heads=2 --set model.num_key_value_heads=1 --set model.intermediate_size=96
      --set model.num_hidden_layers=4 --seq 129 --batch 4)
run=("${tiny[@]}" --data text --steps 2 --set train.eval_windows=2)
fail() { echo "$*" >&2; exit 1; }
number() { grep -oP "\"$1\": \K-?[0-9.e-]+" "$2" | head -1; }

# 24 GiB for TinyLlama: what is chosen fits, and with the loss whole and nothing made again some blocks are recomputed.
"$SPOOL" plan tinyllama --batch 4 --seq 2048 --budget 24GiB --json >plan || fail "plan with a budget"
[ "$(number planned plan)" -le $((24 << 30)) ] || fail "the choice does not fit: $(cat plan)"
grep -q '"everything_kept"' plan && grep -q '"with_more"' plan || fail "what more would buy: $(cat plan)"
"$SPOOL" plan tinyllama --batch 4 --seq 2048 --budget 24GiB --set train.loss_chunk=0 --set 'train.recompute_ops=[]' --set train.feed_forward_chunk=0 >plan || fail "plan with settings"
grep -q 'chosen *--set train.recompute=' plan && grep -q 'more arithmetic than with everything kept' plan || fail "the choice with settings: $(head -5 plan)"

# Training in four fifths of what the plain way takes.
"$SPOOL" train "${run[@]}" --out plain --json >plain.json 2>err || fail "train: $(cat err)"
budget=$(($(number planned plain.json) * 4 / 5))
"$SPOOL" train "${run[@]}" --budget "$budget" --out fits --json >fits.json 2>err || fail "train in a budget: $(cat err)"
grep -q 'chosen .*train\.' err || fail "the choice is not told: $(cat err)"
[ "$(number planned fits.json)" -le "$budget" ] && [ "$(number measured fits.json)" = "$(number planned fits.json)" ] || fail "peaks: $(cat fits.json)"
! diff -q plain/config.toml fits/config.toml >/dev/null || fail "the choice is not kept with the run"
[ "$(number loss plain.json)" = "$(number loss fits.json)" ] || fail "losses: $(cat plain.json fits.json)"

# What cannot be.
refused() {  # status, words, arguments
  local want=$1 words=$2 status=0
  shift 2
  "$SPOOL" "$@" >out 2>err || status=$?
  [ "$status" -eq "$want" ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$words" err || fail "$*: exit $status, $(cat err)"
}
refused 1 "is less than the least that tinyllama can take" plan tinyllama --batch 4 --budget 14GiB
refused 1 "is less than the least that" train "${run[@]}" --budget 100KiB --out nothing
[ ! -e nothing ] || fail "an impossible budget wrote a run"
refused 2 "--budget" plan tinyllama --budget plenty
