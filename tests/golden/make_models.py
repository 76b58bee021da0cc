#!/usr/bin/env python3
"""Writes the small random models below tests/golden/models with Hugging Face transformers, with logits, loss and gradients to compare with.

Run with torch, transformers and safetensors installed:  python3 tests/golden/make_models.py
Each directory holds what save_pretrained writes, and golden.safetensors: tokens [2, n], logits [2, n, vocab], loss [1] (mean over the
n - 1 next tokens of both rows), and grad.NAME for every parameter. f32; the loss is computed in f64 and rounded, so that what is compared
with is right to the last place.
"""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
SIZES = dict(vocab_size=64, hidden_size=48, intermediate_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
             max_position_embeddings=128, rms_norm_eps=1e-5, initializer_range=0.25, attn_implementation="eager")
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)


def write(name, model, length):
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # norms: away from one, so that their place shows
            torch.nn.init.normal_(parameter, 1.0, 0.2)
    directory = os.path.join(HERE, name)
    model.save_pretrained(directory, safe_serialization=True)
    tokens = torch.randint(0, model.config.vocab_size, (2, length))
    model = model.double().eval()
    output = model(input_ids=tokens, labels=tokens, use_cache=False)
    output.loss.backward()
    golden = {"tokens": tokens.int(), "logits": output.logits.detach().float(), "loss": output.loss.detach().float().reshape(1)}
    for key, parameter in model.named_parameters():
        golden["grad." + key] = parameter.grad.float().contiguous()
    save_file(golden, os.path.join(directory, "golden.safetensors"))
    print(name, sum(p.numel() for p in model.parameters()), "parameters, loss", output.loss.item())


def main():
    torch.manual_seed(0)
    write("llama", LlamaForCausalLM(LlamaConfig(**SIZES, rope_theta=500000.0, rope_scaling=LLAMA3, tie_word_embeddings=False)), 70)
    write("llama_tied", LlamaForCausalLM(LlamaConfig(**{**SIZES, "head_dim": 12, "num_key_value_heads": 3}, tie_word_embeddings=True)), 33)
    write("mistral", MistralForCausalLM(MistralConfig(**{**SIZES, "head_dim": 16}, sliding_window=9)), 40)
    # GPT-2's own files keep linear weights as [in, out]; these are [out, in], as in this project's names and layout.
    torch.manual_seed(0)
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.25, resid_pdrop=0.0, embd_pdrop=0.0,
                                     attn_pdrop=0.0, attn_implementation="eager"))
    tokens = torch.randint(0, 64, (2, 29))
    gpt = gpt.double().eval()
    output = gpt(input_ids=tokens, labels=tokens, use_cache=False)
    output.loss.backward()
    golden = {"tokens": tokens.int(), "logits": output.logits.detach().float(), "loss": output.loss.detach().float().reshape(1)}
    for key, parameter in gpt.named_parameters():
        transposed = parameter.dim() == 2 and any(part in key for part in ("c_attn", "c_proj", "c_fc"))
        turn = (lambda t: t.t().contiguous()) if transposed else (lambda t: t.contiguous())
        golden["grad." + key] = turn(parameter.grad.float())
        golden["value." + key] = turn(parameter.detach().float())
    os.makedirs(os.path.join(HERE, "gpt2"), exist_ok=True)
    save_file(golden, os.path.join(HERE, "gpt2", "golden.safetensors"))
    print("gpt2 loss", output.loss.item())


if __name__ == "__main__":
    sys.exit(main())
