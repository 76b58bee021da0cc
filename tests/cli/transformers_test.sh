#!/usr/bin/env bash
# What the program writes is what Hugging Face transformers loads. Skipped where python3 has no torch or transformers.
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
exec python3 "$SPOOL_SOURCE_DIR/tests/golden/check_transformers.py" "$SPOOL"
