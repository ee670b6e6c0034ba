"""Writes small/: vocabularies trained here and now, with ids computed by other tokenizers (see README.md).

Usage: python3 generate_small.py LIBRARIES     (pip install tokenizers sentencepiece gguf; LIBRARIES is the folder of llama.cpp's
shared libraries, such as node_modules/@node-llama-cpp/linux-x64/bins/linux-x64)
"""

import base64
import copy
import ctypes
import io
import json
import os
import random
import sys
import tempfile

import gguf
import sentencepiece
from generate import LLAMA3, TEKKEN, TEXTS, noise
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small")

# The training text, written for this purpose.
STORY = """A small engine stands in the cellar of the library. It reads what people ask and writes what it knows about it.
Every word that comes in is cut into pieces, and every piece has a number; the numbers are all that the engine sees.
When the numbers come out again, they are put together, and the people upstairs read an answer. Nobody else hears of it.
The librarian counts the pieces: 12 in the morning, 345 at noon, 6789 in the evening. She writes them into a book, line by line.
One day the engine was asked for a poem about rain. It thought for a while, and then it said that rain is the sound of waiting.
图书馆的地下室里有一台小小的机器。它读人们的问题，写出它知道的答案。
每一个进来的词都被切成小块，每一块都有一个编号；机器看到的只是这些编号。
编号出来以后又被拼在一起，楼上的人就读到了答案。别人什么也听不到。
管理员把小块数了一遍：早上十二块，中午三百四十五块，晚上六千七百八十九块。她一行一行地写进本子里。
有一天，有人请机器写一首关于雨的诗。它想了一会儿，然后说：雨是等待的声音。
def answer(question):
    pieces = cut(question)  # cut, count, compute
    return join(model(piece) for piece in pieces if piece != "")
"""

EXTRA = [
    "你好，世界！", "机器读人们的问题。", "the engine, THE ENGINE", "<s>hello</s>", "<unk><pad>", "<0x0A><0x41>", "▁a▁▁b", "<tool>x</tool><tool>", "<mask> it",
    "\u0000\u0001\u007f\u001b[1m", "Ａｂｃ １２３", "ﬁre ﬂat", "e\u0301 ê\u0323", "각 \u1100\u1161\u11a8", "\ufeffBOM", "a\u00a0b\u2003c\u2028d", "👨\u200d👩\u200d👧 👍🏽 🇨🇳", "\U0001F1E6", "ABCdefGHI XMLHttp", "中AB 文CD ǅx",
    "ʰª \u0301AB", "a/b//\n/c", "\n" * 20, " " * 33 + "x", "雨" * 40, "é" * 30, "\ufffd", "\u2581", "  \u2581 x", "x \u2581",
]
BAD = [b"\xff", b"a\xffb", b"\xc3", b"\xc3(", b"\xe4\xbd", b"ok \x80\x81 ok", b"\xe6\x9c\xba\xe5", b"\xf0\x9f\x98", b"\xe6\x9c\xff\xe5\x99\xa8"]


def texts():
    rng = random.Random(4)
    return TEXTS + EXTRA + [noise(rng) for _ in range(30)]


class Llama:
    """llama.cpp's tokenizer, by its C interface."""

    class Params(ctypes.Structure):
        _fields_ = [("p1", ctypes.c_void_p), ("p2", ctypes.c_void_p), ("i", ctypes.c_int32 * 5), ("p3", ctypes.c_void_p * 4)] + [
            (n, ctypes.c_bool) for n in ("vocab_only", "check", "extra", "no_host", "no_alloc", "mtp")
        ]

    def __init__(self, folder):
        for name in ("libggml-base", "libggml-cpu-x64", "libggml", "libllama"):
            file = next(f for f in sorted(os.listdir(folder)) if f.startswith(name + "."))
            self.lib = ctypes.CDLL(os.path.join(folder, file), mode=ctypes.RTLD_GLOBAL)
        lib = self.lib
        log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self.quiet = log(lambda *_: None)
        lib.llama_log_set(self.quiet, None)
        lib.llama_backend_init()
        lib.llama_model_default_params.restype = self.Params
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, self.Params]
        lib.llama_model_get_vocab.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]

    def load(self, path):
        params = self.lib.llama_model_default_params()
        params.vocab_only = True
        self.vocab = self.lib.llama_model_get_vocab(self.lib.llama_model_load_from_file(path.encode(), params))

    def ids(self, text, add, special):
        room = (ctypes.c_int32 * (len(text) + 16))()
        n = self.lib.llama_tokenize(self.vocab, text, len(text), room, len(room), add, special)
        assert n >= 0
        return list(room[:n])


def write(name, value):
    os.makedirs(os.path.dirname(os.path.join(HERE, name)), exist_ok=True)
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))


def answers(name, path, cases):
    for c in cases:
        if c.get("plain") == c.get("special"):
            c.pop("special", None)
    write(name + ".answers.json", {"path": path, "cases": cases})


def write_gguf(name, model, tokens, scores, types, **more):
    path = os.path.join(HERE, name)
    w = gguf.GGUFWriter(path, "llama")
    for add, value in ((w.add_context_length, 128), (w.add_embedding_length, 64), (w.add_block_count, 1), (w.add_feed_forward_length, 64), (w.add_head_count, 1)):
        add(value)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(types)
    for key, value in more.items():
        getattr(w, key)(value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


def train(kind, **more):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(STORY.splitlines() * 3), model_writer=model, model_type=kind, hard_vocab_limit=False, minloglevel=2, **more)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()), model.getvalue()


def kind(sp, i):
    return 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if sp.id_to_piece(i).startswith("<tool") else 1


def llama_cases(llama, path, add):
    llama.load(path)
    raw = [t.encode() for t in texts()] + BAD
    return [{"hex": t.hex(), "plain": llama.ids(t, False, False), "special": llama.ids(t, False, True)} if not add else {"hex": t.hex(), "full": llama.ids(t, True, False)} for t in raw]


def sentence_pieces(llama):
    """Llama 2's kind, as GGUF with and without the space in front."""
    sp, _ = train("bpe", vocab_size=640, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=["<tool>", "</tool>"])
    n = range(sp.vocab_size())
    tokens, scores, types = [sp.id_to_piece(i) for i in n], [sp.get_score(i) for i in n], [kind(sp, i) for i in n]
    plain = [t for t in texts() if t and "<" not in t]
    for name, prefix in (("llama", True), ("gemma", False)):
        path = write_gguf(name + ".gguf", "llama", tokens, scores, types, add_add_space_prefix=prefix)
        answers(name + "-llamacpp", name + ".gguf", llama_cases(llama, path, False))
    answers("llama-sentencepiece", "llama.gguf", [{"hex": t.encode().hex(), "plain": sp.encode(t), "special": sp.encode(t)} for t in plain])
    hugging_pieces(tokens, types, scores)


def merges_of(tokens, scores, usable):
    """Every way to put a piece together, best piece first, as the converters of Hugging Face write it."""
    ids = {t: i for i, t in enumerate(tokens)}
    out = []
    for t in tokens:
        if not usable[ids[t]]:
            continue
        cuts = [(t[:k], t[k:]) for k in range(1, len(t)) if t[:k] in ids and t[k:] in ids and usable[ids[t[:k]]] and usable[ids[t[k:]]]]
        out += [(a, b, scores[ids[t]]) for a, b in sorted(cuts, key=lambda c: (ids[c[0]], ids[c[1]]))]
    return [[a, b] for a, b, _ in sorted(out, key=lambda m: -m[2])]


def added(token, i, special=True, **more):
    return {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special} | more


def template(before, after):
    one = [{"SpecialToken": {"id": t, "type_id": 0}} for t, _ in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [{"SpecialToken": {"id": t, "type_id": 0}} for t, _ in after]
    return {"type": "TemplateProcessing", "single": one, "pair": one + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in before + after}}


def hugging(name, file, config=None, encoder=False):
    write(name + "/tokenizer.json", file)
    if config:
        write(name + "/tokenizer_config.json", config)
    path = os.path.join(HERE, name, "tokenizer.json")
    plain, special = Tokenizer.from_file(path), Tokenizer.from_file(path)
    plain.encode_special_tokens = True
    if encoder:
        cases = [{"hex": t.encode().hex(), "full": plain.encode(t).ids} for t in texts() if not any(s["content"] in t for s in file["added_tokens"])]
    else:
        cases = [{"hex": t.encode().hex(), "plain": plain.encode(t, add_special_tokens=False).ids, "special": special.encode(t, add_special_tokens=False).ids} for t in texts()]
    answers(name + "-tokenizers", name, cases)


def hugging_pieces(tokens, types, scores):
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    base = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(t, i, types[i] != 4) for i, t in enumerate(tokens) if types[i] in (2, 3, 4)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}, "pre_tokenizer": None,
        "post_processor": template([("<s>", 1)], []), "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges_of(tokens, scores, [k == 1 for k in types])},
    }
    config = {"add_bos_token": True, "bos_token": "<s>", "eos_token": {"content": "</s>", "__type": "AddedToken"}, "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "{{ bos_token }}"}]}
    hugging("hf-llama", base, config)
    gemma = copy.deepcopy(base)
    gemma["normalizer"], gemma["pre_tokenizer"] = replace, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    gemma["model"]["merges"] = [" ".join(m) for m in base["model"]["merges"]]
    hugging("hf-gemma", gemma, config | {"chat_template": "{{ bos_token }}"})
    mistral = copy.deepcopy(base)
    mistral["normalizer"], mistral["pre_tokenizer"] = None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    hugging("hf-mistral", mistral)


def byte_level():
    """Llama 3, Qwen, SmolLM2, Mistral (tekken) and GPT-2: one vocabulary, five ways to cut text."""
    split = lambda pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = bytes_only
    bpe.train_from_iterator(STORY.splitlines() * 3, trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    bpe.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>")])
    bpe.add_tokens([AddedToken("<tool>", normalized=False)])
    bos = bpe.token_to_id("<|begin_of_text|>")
    config = {"add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "chat_template": "{{ messages }}"}
    for name, pre, whole, norm in (
        ("hf-llama3", split(LLAMA3), True, None),
        ("hf-qwen", split(LLAMA3.replace("{1,3}", "")), False, normalizers.NFC()),
        ("hf-smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_only]), False, None),
        ("hf-tekken", split(TEKKEN), True, None),
        ("hf-gpt2", bytes_only, False, None),
    ):
        bpe.pre_tokenizer = pre
        if norm:
            bpe.normalizer = norm
        file = json.loads(bpe.to_str())
        if not norm:
            file["normalizer"] = None
        file["model"]["ignore_merges"] = whole
        file["decoder"] = None
        if name == "hf-llama3":
            file["post_processor"] = {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, template([("<|begin_of_text|>", bos)], [])]}
            file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]
        hugging(name, file, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"} if name == "hf-llama3" else config)


RULES = [("ﬁ", "fi"), ("ﬂ", "fl"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\u2028", " "), ("\u2003", " "), ("\u007f", ""), ("\u001b", ""), ("\ufeff", ""), ("e\u0301", "é"),
         ("\u1100\u1161\u11a8", "각"), ("１", "1"), ("２", "2"), ("３", "3"), ("Ａ", "A"), ("ｂ", "b"), ("ｃ", "c"), ("²", "2"), ("½", "1\u20442"), ("…", "..."), ("、", ",")]


def unigram(llama):
    """XLM-R's kind. The rules of normalisation are few, so that their map stays small."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for source, target in RULES:
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        sp, proto = train("unigram", vocab_size=420, normalization_rule_tsv=rules.name, character_coverage=0.995, unk_id=3, bos_id=0, eos_id=2, pad_id=1)
    from sentencepiece import sentencepiece_model_pb2

    charsmap = sentencepiece_model_pb2.ModelProto.FromString(proto).normalizer_spec.precompiled_charsmap
    n = range(sp.vocab_size())
    tokens, scores, types = [sp.id_to_piece(i) for i in n], [sp.get_score(i) for i in n], [kind(sp, i) for i in n]
    path = write_gguf("xlmr.gguf", "t5", tokens, scores, types, add_add_space_prefix=True, add_remove_extra_whitespaces=True, add_precompiled_charsmap=charsmap,
                      add_bos_token_id=0, add_eos_token_id=2, add_unk_token_id=3, add_pad_token_id=1, add_add_bos_token=True, add_add_eos_token=True)
    answers("xlmr-llamacpp", "xlmr.gguf", llama_cases(llama, path, True))
    answers("xlmr-sentencepiece", "xlmr.gguf", [{"hex": t.encode().hex(), "full": [0] + sp.encode(t) + [2]} for t in texts() if "\u0000" not in t and "\u2581" not in t])
    precompiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    file = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [added(t, i) for i, t in enumerate(tokens) if types[i] in (2, 3)],
        "normalizer": {"type": "Sequence", "normalizers": [precompiled, {"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, "post_processor": template([("<s>", 0)], [("</s>", 2)]), "decoder": None,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": [[t, s] for t, s in zip(tokens, scores)], "byte_fallback": False},
    }
    hugging("hf-xlmr", file, encoder=True)
    old = copy.deepcopy(file)
    old["normalizer"], old["pre_tokenizer"] = precompiled, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}]}
    hugging("hf-xlmr-old", old, encoder=True)
    mid = copy.deepcopy(file)
    mid["normalizer"] = {"type": "Sequence", "normalizers": [precompiled, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}
    hugging("hf-xlmr-mid", mid, encoder=True)


def main():
    os.makedirs(HERE, exist_ok=True)
    llama = Llama(sys.argv[1])
    sentence_pieces(llama)
    byte_level()
    unigram(llama)


if __name__ == "__main__":
    main()
