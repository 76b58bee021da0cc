#!/usr/bin/env python3
"""What `spool` writes is what Hugging Face transformers loads: the same loss of a text, for several shapes of model.

check_transformers.py PROGRAM: makes small random models with transformers, lets PROGRAM train them for two steps, and compares the loss of
a text that PROGRAM and transformers find with the weights written to RUN/hf. Exits 77 (skipped) where torch or transformers is missing.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
    from transformers.utils import logging
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

logging.set_verbosity_error()
TEXT = "What is written must be read by others as it stands: the quick brown fox jumps over the lazy dog, 0123456789 times."
SIZES = dict(vocab_size=256, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=256)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
MODELS = {
    "grouped, untied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "tied, llama3 scaling": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True, rope_theta=5e5, rope_scaling=LLAMA3)),
    "linear scaling, its own head size": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16, rope_scaling=dict(rope_type="linear", factor=4.0))),
    "Mistral, window of 9": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=9)),
}


def spool(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"check_transformers: {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def main():
    program = sys.argv[1]
    wrong = 0
    for name, make in MODELS.items():
        with tempfile.TemporaryDirectory() as place:
            place = pathlib.Path(place)
            torch.manual_seed(3)
            make().save_pretrained(place / "given")
            (place / "text").write_text(TEXT * 60)
            spool(program, "train", "--hf", place / "given", "--data", place / "text", "--seq", 65, "--steps", 2, "--set", "optim.lr=1e-2", "--out", place / "run")
            found = json.loads(spool(program, "eval", place / "run" / "hf", "--text", TEXT, "--json"))["loss"]
            model = AutoModelForCausalLM.from_pretrained(place / "run" / "hf", attn_implementation="eager").double().eval()
            tokens = torch.tensor([list(TEXT.encode())])
            with torch.no_grad():
                expected = model(input_ids=tokens, labels=tokens, use_cache=False).loss.item()
            same = math.isclose(found, expected, rel_tol=1e-5)
            wrong += not same
            print(f"{name}: {found:.7f} here, {expected:.7f} there{'' if same else '  DIFFERENT'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
