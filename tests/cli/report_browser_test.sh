#!/usr/bin/env bash
# The HTML report in a real browser: nothing on its console, the peak of report.json in the page, the words of a buffer under the pointer.
set -eu
browser=$(command -v chromium || command -v chromium-browser || true)
[ -n "$browser" ] || { echo "chromium is missing: the page is not opened"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 40000 >text
fail() { echo "$*" >&2; exit 1; }
"$SPOOL" train llama-tiny --data text --set model.hidden_size=32 --set model.num_attention_heads=2 --set model.num_key_value_heads=1 --set model.intermediate_size=48 \
  --set model.num_hidden_layers=3 --seq 65 --batch 2 --steps 1 --set train.eval_windows=2 --set train.recompute=block --out run 2>err || fail "train: $(cat err)"
"$SPOOL" report run --html page.html >out || fail "report --html"
[ "$(wc -c <page.html)" -le 2097152 ] || fail "the page has $(wc -c <page.html) bytes"
! grep -q http page.html || fail "the page refers to the network"

# show PAGE: the page's document after its scripts have run; what the console got is in console.log.
show() {
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$dir/profile" --enable-logging=stderr --v=0 \
    --virtual-time-budget=2000 --window-size=1280,800 --dump-dom "file://$dir/$1" 2>browser.log || fail "chromium: $(tail -5 browser.log)"
  grep -E 'CONSOLE|Uncaught' browser.log >console.log || true
}
show page.html >page.dom
[ ! -s console.log ] || fail "the console says: $(cat console.log)"
peak=$("$SPOOL" report run --json | grep -oP '"planned": \K[0-9]+')
shown=$(grep -oP 'Planned peak</div>.*?class="soft">\K[0-9,]+(?= B)' page.dom | head -1 | tr -d ,)
[ "$shown" = "$peak" ] || fail "the page shows a peak of '$shown', report.json $peak"

# The same page with a pointer that moves over the first buffer of the address map, and an error at the end: is either seen?
sed 's|</html>|<script>document.querySelector("svg.map rect[data-t]").dispatchEvent(new MouseEvent("mousemove", {bubbles: true, clientX: 5, clientY: 5})); missing();</script></html>|' page.html >moved.html
show moved.html >moved.dom
grep -q 'missing is not defined' console.log || fail "an error on the page is not noticed: $(cat browser.log)"
tr '\n' ' ' <moved.dom | grep -qP '<div id="tip"[^>]*>[^<]* [0-9,]+ B at [0-9,]+, [a-z]+ events' || fail "nothing is said of the buffer under the pointer: $(tail -c 600 moved.dom)"
