#!/usr/bin/env bash
# Every model family from training to text; accumulation and bf16 resumed; Hugging Face weights in and out; sampling options and their refusals.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 40000 >text
fail() { echo "$*" >&2; exit 1; }
number() { grep -oP "\"$1\": \K[0-9.]+" "$2"; }
llama=(--set model.type=llama --set model.hidden_size=32 --set model.num_hidden_layers=2 --set model.num_attention_heads=4 --set model.num_key_value_heads=2)
gpt=(--set model.type=gpt --set model.n_embd=32 --set model.n_layer=2 --set model.n_head=4)
performer=(--set model.d_model=32 --set model.heads=2 --set model.d_ff=64 --set model.layers=2)
: >none.toml
common=(--config none.toml --data text --seq 65 --batch 2 --set train.accumulate=2 --set train.eval_windows=4 --set train.eval_every=0 --set optim.lr=3e-3)

for family in performer llama gpt; do
  declare -n settings="$family"
  for dtype in f32 bf16; do
    run="$family-$dtype"
    "$SPOOL" train "${common[@]}" "${settings[@]}" --dtype "$dtype" --steps 12 --out "$run" --json >"$run.json" 2>err || fail "$run: $(cat err)"
    [ "$(number planned "$run.json")" = "$(number measured "$run.json")" ] || fail "$run: the plan is not the run: $(cat "$run.json")"
    "$SPOOL" train "${common[@]}" "${settings[@]}" --dtype "$dtype" --steps 12 --set train.save_every=5 --set train.keep=9 --out "$run-again" 2>/dev/null
    rm -rf "$run-again"/checkpoints/step-1*
    "$SPOOL" --threads 1 train --resume --out "$run-again" 2>err || fail "$run, resumed: $(cat err)"
    for file in model optimizer; do
      cmp "$run/checkpoints/step-12/$file.safetensors" "$run-again/checkpoints/step-12/$file.safetensors" || fail "$run: the resumed run has other bits"
    done
  done
  run="$family-f32"
  "$SPOOL" eval "$run" --data text --json >eval.json || fail "$run: eval"
  [ "$(number tokens eval.json)" = "$(number bytes eval.json)" ] || fail "$run: bytes are tokens here: $(cat eval.json)"
  "$SPOOL" generate "$run" --prompt 12 --tokens 30 --seed 1 --top-k 5 --top-p 0.9 --repetition-penalty 1.2 --temperature 0.7 >a
  "$SPOOL" generate "$run" --prompt 12 --tokens 30 --seed 1 --top-k 5 --top-p 0.9 --repetition-penalty 1.2 --temperature 0.7 >b
  cmp a b || fail "$run: one seed, two texts"
  [ "$(wc -c <a)" -eq 33 ] || fail "$run: 30 bytes after a prompt of 2, and a newline: $(wc -c <a)"
  rest=$(tail -c +3 a | head -c 30 | cut -c 4-5 | head -1)
  if [ ${#rest} -eq 2 ]; then
    "$SPOOL" generate "$run" --prompt 12 --tokens 30 --seed 1 --top-k 5 --top-p 0.9 --repetition-penalty 1.2 --temperature 0.7 --stop never --stop "$rest" >stopped
    whole=$(head -c 32 a) short=$(cat stopped)
    head="${whole:2}" && head="${head%%"$rest"*}"
    [ "$short" = "12$head" ] || fail "$run: stopped at '$rest' it says '$short' instead of '12$head'"
  fi
done

# A LLaMA's weights leave in Hugging Face's layout, and are what a run, an evaluation, a text and a plan can start from.
"$SPOOL" generate llama-f32 --prompt 12 --tokens 20 --temperature 0 >a
"$SPOOL" generate llama-f32/hf --prompt 12 --tokens 20 --temperature 0 >b
cmp a b || fail "the exported weights say something else"
"$SPOOL" generate llama-f32/hf --prompt 12 --tokens 1 2>&1 >/dev/null | grep -q -- "--tokenizer" || fail "weights without a tokenizer are read as bytes, and it does not say so"
"$SPOOL" generate llama-f32 --prompt 12 --tokens 1 2>&1 >/dev/null | grep -q . && fail "a run of bytes needs no notice"
[ "$("$SPOOL" eval llama-f32 --data text --seq 65)" = "$("$SPOOL" eval llama-f32/hf --data text --seq 65)" ] || fail "the exported weights have another loss"
parameters=$("$SPOOL" plan --hf llama-f32/hf --json | grep -oP '"parameters": \K[0-9]+')
[ "$("$SPOOL" plan --hf llama-f32/hf/config.json --json | grep -oP '"parameters": \K[0-9]+')" = "$parameters" ] || fail "plan --hf config.json"
"$SPOOL" train --hf llama-f32/hf --data text --seq 65 --steps 1 --set optim.lr=1e-9 --set train.eval_windows=4 --out tuned --json >tuned.json 2>err || fail "train --hf: $(cat err)"
awk -v a="$(number loss tuned.json | tail -1)" -v b="$(number loss llama-f32.json | tail -1)" 'BEGIN { exit !(a - b < 0.01 && b - a < 0.01) }' ||
  fail "fine-tuning does not start from the weights: $(cat tuned.json llama-f32.json)"

# refused TEXT ARGS...: exit 2 and one line that says TEXT.
refused() {
  local text="$1" status=0
  shift
  "$SPOOL" "$@" >stdout 2>stderr || status=$?
  if [ "$status" -ne 2 ] || ! grep -qF -- "$text" stderr || [ "$(grep -c . stderr)" -ne 1 ] || [ -s stdout ]; then
    fail "spool $*: exit $status (expected 2), expected text: $text; $(cat stderr)"
  fi
}
for bad in "--temperature -1" "--temperature nan" "--top-k -1" "--top-p 0" "--top-p 1.5" "--repetition-penalty 0" "--tokens -1"; do
  # shellcheck disable=SC2086
  refused "${bad%% *}: " generate llama-f32 ${bad%% *}=${bad##* }
done
refused "--stop: " generate llama-f32 "--stop="
refused "it belongs to model.type llama" train "${common[@]}" --set model.rope_theta=1
refused "did you mean 'model.hidden_size'?" train "${common[@]}" --set model.type=llama --set model.hiden_size=64
refused "train.chunk = 8" train "${common[@]}" --set model.type=gpt --chunk 8
refused "train.recompute = \"block\"" train "${common[@]}" --set train.recompute=block
refused "model.n_positions" train --config none.toml --data text --set model.type=gpt --seq 4096
refused "does not go with --hf" plan --hf llama-f32/hf --set model.type=gpt

status=0
"$SPOOL" generate . --prompt x >stdout 2>stderr || status=$?
[ "$status" -eq 1 ] && grep -q "is no model" stderr || fail "a directory that is no model: exit $status, $(cat stderr)"

stories="${SPOOL_DATA_DIR:-${SPOOL_SHARED_DATA:-/nonexistent}}/stories260k"
if [ -d "$stories" ]; then
  text=$("$SPOOL" generate "$stories" --tokenizer "$stories/tok512.bin" --prompt "Once upon a time" --tokens 40 --temperature 0)
  case "$text" in "Once upon a time, there was a little girl named Lily."*) ;; *) fail "the little stories: $text" ;; esac
  [ "$("$SPOOL" generate "$stories/stories260K.bin" --tokenizer "$stories/tok512.bin" --prompt "Once upon a time" --tokens 40 --temperature 0)" = "$text" ] || fail "llama2.c's file says something else"
  [ "$("$SPOOL" generate "$stories" --tokenizer "$stories/tok512.bin" --prompt "Once upon a time" --tokens 40 --temperature 0 --stop " named Lil")" = "Once upon a time, there was a little girl" ] || fail "a stop text over several tokens"
  "$SPOOL" eval "$stories" --tokenizer "$stories/tok512.bin" --text "Once upon a time, there was a little girl named Lily." --json >eval.json
  [ "$(number bytes eval.json)" -eq 53 ] || fail "every word of 53 bytes is scored, after the begin token: $(cat eval.json)"
  "$SPOOL" train --hf "$stories" --tokenizer "$stories/tok512.bin" --data text --seq 65 --steps 3 --set train.eval_windows=4 --out stories --json >stories.json 2>err || fail "fine-tuning: $(cat err)"
  [ "$(number planned stories.json)" = "$(number measured stories.json)" ] || fail "tokens are planned as they run: $(cat stories.json)"
  [ "$("$SPOOL" generate stories --prompt Once --tokens 9 --temperature 0)" = "$("$SPOOL" generate stories/hf --prompt Once --tokens 9 --temperature 0)" ] || fail "the run and its exported weights differ"
fi
