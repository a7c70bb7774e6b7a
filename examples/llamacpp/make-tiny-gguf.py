#!/usr/bin/env python3
"""Write a tiny random-weight Llama model as GGUF, for tests of llama.cpp's llama-server.

    make-tiny-gguf.py [--type f16|q8_0|f32] [--layers N] [--hidden N] ... OUT.gguf

Needs numpy and gguf (requirements.txt), nothing else. Same arguments, same bytes: every number comes from --seed,
and the tokenizer is trained here on the text below. The model speaks nonsense, but everything around
it is real: a byte-level BPE tokenizer with merges, BOS, EOS, a chat template, grouped-query attention.

Two things make it pleasant for tests of a server:

* Dimension 0 of the hidden state is a constant (1 in every embedding row; no layer writes to it), so
  column 0 of the output matrix is a bias per token. With it
    - only printable ASCII is ever sampled. Lone bytes >= 0x80 would make the server hold text back
      until a character is whole, and streams would show gaps that no real model shows;
    - EOS has a chosen chance (--eos-rate), roughly, at temperature 1 without top-k, top-p or min-p.
      Below about 1% the server's default min-p of 0.05 removes it. At temperature 0 it is rare.
* Layers write little to the residual stream, so logits stay near a normal distribution of width
  --spread whatever the depth.
"""
import argparse
import collections
import json
import math
import re

import gguf
import numpy as np

TEXT = """
A server takes a prompt, splits it into tokens, and answers one token after the other. The time to the
first token is spent on the prompt; the time for each token after it is spent on reading the weights.
When more requests come than there are slots, the rest wait in a queue. A benchmark sends many prompts
at once, counts what comes back, and asks how long each answer took. It is only fair when every server
gets the same prompts, the same lengths and the same number of requests, and when the numbers are taken
more than once, since two runs are never the same. What is measured is written down with its unit. What
could not be measured is written down as missing, never as zero. The quick brown fox jumps over the lazy
dog. There was a time when the machine had one processor and the programmer knew all of its memory.
for i in range(10): print(i, "hello world") # 0 1 2 3 4 5 6 7 8 9, 100, 1000, 2048, 4096
"""

SPECIALS = ["<|pad|>", "<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PAD, BOS, EOS, IM_START, IM_END = range(5)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# GPT-2's split, for text in ASCII.
SPLIT = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_chars():
    """Return GPT-2's printable stand-in for each byte value: 256 different characters."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    chars, spare = {b: chr(b) for b in keep}, 256
    for b in range(256):
        if b not in chars:
            chars[b] = chr(spare)
            spare += 1
    return [chars[b] for b in range(256)]


def train_bpe(text, count):
    """Return up to `count` merges (pairs of token texts), most frequent first; ties by text order."""
    chars = byte_chars()
    words = collections.Counter(tuple(chars[b] for b in w.encode()) for w in SPLIT.findall(text))
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        merged = collections.Counter()
        for word, n in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i : i + 2] == best:
                    out.append(word[i] + word[i + 1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] += n
        words = merged
    return merges


def make_vocab(size):
    """Return (tokens, merges, printable): `size` tokens, and which of them are printable ASCII."""
    chars = byte_chars()
    base = SPECIALS + chars
    if size < len(base):
        raise SystemExit(f"make-tiny-gguf: --vocab must be at least {len(base)}")
    merges = train_bpe(TEXT, size - len(base))
    tokens = base + [a + b for a, b in merges]
    if len(tokens) < size:
        raise SystemExit(f"make-tiny-gguf: the built-in text gives at most {len(tokens)} tokens")
    plain = {chars[b] for b in [*range(0x20, 0x7F), 0x0A]}
    printable = [i >= len(SPECIALS) and all(c in plain for c in t) for i, t in enumerate(tokens)]
    return tokens, merges, np.array(printable)


def tokenizer_json(tokens, merges):
    """Return the same tokenizer in the form of Hugging Face's tokenizer.json."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [
        {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, t in enumerate(SPECIALS)
    ]
    bos = SPECIALS[BOS]
    single = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": level, "decoder": level,
        "post_processor": {
            "type": "TemplateProcessing", "single": single,
            "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": [BOS], "tokens": [bos]}},
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [f"{a} {b}" for a, b in merges],
        },
    }


def make_weights(a, printable):
    """Yield (name, float32 matrix or vector) in the order of the file."""
    rng = np.random.default_rng(a.seed)
    hidden, kv_dim = a.hidden, a.hidden // a.heads * a.kv_heads

    def matrix(rows, cols, gain=1.0):
        return (rng.standard_normal((rows, cols)) * (gain / math.sqrt(cols))).astype(np.float32)

    def writes_residual(cols):
        w = matrix(hidden, cols, gain=0.5)
        w[0] = 0  # keep dimension 0 constant
        return w

    embd = rng.standard_normal((a.vocab, hidden)).astype(np.float32)
    embd[:, 0] = 1
    yield "token_embd.weight", embd

    ones = np.ones(hidden, np.float32)
    for i in range(a.layers):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", ones
        yield p + "attn_q.weight", matrix(hidden, hidden)
        yield p + "attn_k.weight", matrix(kv_dim, hidden)
        yield p + "attn_v.weight", matrix(kv_dim, hidden)
        yield p + "attn_output.weight", writes_residual(hidden)
        yield p + "ffn_norm.weight", ones
        yield p + "ffn_gate.weight", matrix(a.ffn, hidden)
        yield p + "ffn_up.weight", matrix(a.ffn, hidden)
        yield p + "ffn_down.weight", writes_residual(a.ffn)

    # After the last norm dimension 0 is 1/rms; rms grows with depth, so the norm's own weight makes
    # up for most of it. The bias need not be exact.
    norm = ones.copy()
    norm[0] = math.sqrt(1 + 0.1 * a.layers)
    yield "output_norm.weight", norm
    out = matrix(a.vocab, hidden, gain=a.spread)
    out[:, 0] = np.where(printable, 0, -40)
    total = math.log(printable.sum()) + a.spread**2 / 2  # log of the sum of exp(logit)
    out[EOS] = 0
    out[EOS, 0] = math.log(a.eos_rate) + total if a.eos_rate > 0 else -40
    yield "output.weight", out


def main():
    p = argparse.ArgumentParser(description="Write a tiny random-weight Llama model as GGUF.")
    p.add_argument("out")
    p.add_argument("--type", choices=["f32", "f16", "q8_0"], default="f16", help="type of the matrices (default f16)")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--ffn", type=int, default=768)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--vocab", type=int, default=512, help="5 specials + 256 bytes + merges (default 512)")
    p.add_argument("--context", type=int, default=8192, help="context length in the metadata (default 8192)")
    p.add_argument("--spread", type=float, default=2.0, help="standard deviation of the logits (default 2)")
    p.add_argument("--eos-rate", type=float, default=1 / 64, help="rough chance of EOS per token (default 1/64; 0 = never)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--name", default="tiny-random-llama", help="general.name in the metadata")
    p.add_argument("--tokenizer-json", metavar="FILE", help="also write the tokenizer as tokenizer.json")
    a = p.parse_args()
    if a.hidden % a.heads or a.heads % a.kv_heads or a.hidden % 32 or a.ffn % 32:
        p.error("hidden must be a multiple of heads, heads of kv-heads, hidden and ffn of 32")

    tokens, merges, printable = make_vocab(a.vocab)
    kind = gguf.GGMLQuantizationType[a.type.upper()]
    file_type = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0"}[a.type]

    w = gguf.GGUFWriter(a.out, "llama")
    w.add_name(a.name)
    w.add_file_type(gguf.LlamaFileType[file_type])
    w.add_context_length(a.context)
    w.add_embedding_length(a.hidden)
    w.add_block_count(a.layers)
    w.add_feed_forward_length(a.ffn)
    w.add_head_count(a.heads)
    w.add_head_count_kv(a.kv_heads)
    w.add_rope_dimension_count(a.hidden // a.heads)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(a.vocab)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(
        [gguf.TokenType.CONTROL] * len(SPECIALS) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIALS))
    )
    w.add_token_merges([f"{x} {y}" for x, y in merges])
    w.add_bos_token_id(BOS)
    w.add_eos_token_id(EOS)
    w.add_eot_token_id(IM_END)
    w.add_pad_token_id(PAD)
    w.add_add_bos_token(True)
    w.add_chat_template(CHAT_TEMPLATE)

    total = 0
    for name, array in make_weights(a, printable):
        total += array.size
        if array.ndim == 1 or a.type == "f32":
            w.add_tensor(name, array)
        else:
            w.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if a.tokenizer_json:
        with open(a.tokenizer_json, "w", encoding="utf-8") as f:
            json.dump(tokenizer_json(tokens, merges), f, ensure_ascii=False, indent=1)
            f.write("\n")
    print(f"{a.out}: {total / 1e6:.2f} M parameters, {a.type}, {len(tokens)} tokens")


if __name__ == "__main__":
    main()
