#!/usr/bin/env python3
"""Makes the small tokenizers beside this script and `tokenizers.tsv`, the encodings that their reference implementations give.

Needs the python packages `sentencepiece` and `tokenizers`. The training text is that of this repository's headers and README files, so a
later run makes other vocabularies; the files are committed together and tests need only them.

tokenizers.tsv, one line a case, fields separated by tabs: file, text as hexadecimal bytes of UTF-8, ids separated by spaces.
"""
import contextlib
import json
import pathlib
import tempfile

import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXTS = [
    "", " ", "  ", "   \n", "a", " a", "a ", "  a  b   c", "\n", "\n\n\n", "\r\n", "\t\tx", " \n a \n\n  b\n", "the tensor", "The tensor of the tape",
    "0", "42", "1234567890123", "3.14159 and 1,000,000", "2²³ ½ Ⅷ ٣٤٥", "I'm you're he'd we'll they've it's DON'T I'LL 'tis 's",
    "don’t", "naïve café Ångström", "e\u0301", "привет мир", "ελληνικά", "日本語のテキスト", "中文 字符", "한국어", "🙂", "👩‍👩‍👧‍👦 family 🇺🇳", "a🙂b",
    "\u00a0nbsp\u3000wide\u2028line", "\u200bzero\u200d", "!!!", "...)))(((", "x=1;y[2]+=3/*c*/", "https://example.org/a?b=c&d=%20", "tab\tand\vvt\fff",
    "\x00nul\x01\x7f", "▁", "a▁b", "▁ a", "<s>", "</s> x", "<unk>", "x<s>y</s>", "<|endoftext|>", "a <|endoftext|> b", "<|begin_of_text|>hello<|end_of_text|>",
    "<0x41>", "<0x0A>", "<extra> thing", "un<extra>der", "a <wide>  b", "<wide><wide> \n", "the tape", "a tapetape",
    "supercalifragilistic" * 6, "a" * 90, "ab" * 50, " " * 70, "\U0010ffff", "ſ Kelvin K 'ſ", "x\u00a0\u00a0b", "x\u2009\u2009 b\u0085\u0085c", "١٢٣٤ 1²3",
    "static_cast<int64_t>(std::max(a, b))", "The quick brown fox jumps over the lazy dog. ", "ÿþ", "\ufeffbom", "1a2b3c", "hello\u0085next", "ﬁ ligature",
]


def training_text():
    names = sorted(ROOT.glob("*/*.h")) + sorted(ROOT.glob("**/README.md"))
    return [line for name in names for line in name.read_text().splitlines() if line.strip()]


def byte_level(lines, pre_tokenizer, size, specials, extra=(), ignore_merges=False):
    t = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                                     initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    t.add_tokens([tokenizers.AddedToken(e, normalized=False) for e in extra])
    return t


def add_whole_words(config, split):
    """Tokens for the words of either way of splitting. Such a word is found whole, so that a text cut at another place has other tokens."""
    words = {w for text in TEXTS for way in (pre_tokenizers.ByteLevel(add_prefix_space=False), split) for w, _ in way.pre_tokenize_str(text)}
    vocab = config["model"]["vocab"]
    vocab.update({w: len(vocab) + i for i, w in enumerate(sorted(w for w in words if w not in vocab and 1 < len(w) <= 12))})
    for token in config["added_tokens"]:
        if token["content"] not in vocab:
            token["id"] = max(list(vocab.values()) + [a["id"] for a in config["added_tokens"] if a["content"] in vocab]) + 1


def llama2_like(lines, size):
    """A vocabulary with byte tokens, trained on words that begin with the mark of a space."""
    specials = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    t = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=specials + byte_tokens, limit_alphabet=60,
                                                     show_progress=False))
    config = json.loads(t.to_str())
    config["added_tokens"] = [a for a in config["added_tokens"] if a["content"] in specials]
    config["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    config["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    config["pre_tokenizer"] = None
    config["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    config["post_processor"] = {"type": "TemplateProcessing",
                                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                         {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return config


def main():
    lines = training_text()
    made = {}

    split = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(LLAMA3_SPLIT), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    gpt2 = byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), 400, ["<|endoftext|>"], extra=["<extra>"], ignore_merges=True)
    config = json.loads(gpt2.to_str())
    config["model"]["merges"] = [" ".join(m) if isinstance(m, list) else m for m in config["model"]["merges"]]  # the older spelling
    add_whole_words(config, split)
    made["gpt2.json"] = config

    llama3 = byte_level(lines, split, 420, ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    llama3.add_special_tokens([tokenizers.AddedToken("<wide>", lstrip=True, rstrip=True)])
    llama3.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    config = json.loads(llama3.to_str())
    add_whole_words(config, split)
    made["llama3.json"] = config

    made["llama2.json"] = llama2_like(lines, 420)
    # A token that is looked for in the normalized text, as "▁tape": older conversions have such.
    made["llama2.json"]["added_tokens"].append({"id": 420, "content": "tape", "single_word": False, "lstrip": False, "rstrip": False,
                                                "normalized": True, "special": False})
    for scheme in ("first", "always"):
        config = json.loads(json.dumps(made["llama2.json"]))
        config["normalizer"] = None
        config["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme == "always"}
        config["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme == "always"}
        made[f"metaspace_{scheme}.json"] = config

    for name, config in made.items():
        text = json.dumps(config, ensure_ascii=False, separators=(",", ":"))
        (HERE / name).write_text(text)

    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):  # the model keeps the names of its files
        pathlib.Path("corpus.txt").write_text("\n".join(lines))
        sentencepiece.SentencePieceTrainer.train(
            input="corpus.txt", model_prefix="m", model_type="bpe", vocab_size=360, byte_fallback=True,
            character_coverage=0.99, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
            allow_whitespace_only_pieces=True, num_threads=1, minloglevel=2)
        (HERE / "sentencepiece.model").write_bytes(pathlib.Path("m.model").read_bytes())

    out = []
    for name in made:
        t = tokenizers.Tokenizer.from_file(str(HERE / name))
        out += [(name, text, t.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    p = sentencepiece.SentencePieceProcessor(model_file=str(HERE / "sentencepiece.model"))
    out += [("sentencepiece.model", text, p.encode(text)) for text in TEXTS]
    (HERE / "tokenizers.tsv").write_text("".join(f"{n}\t{t.encode().hex()}\t{' '.join(map(str, ids))}\n" for n, t, ids in out))


if __name__ == "__main__":
    main()
