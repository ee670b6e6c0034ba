"""Writes oracle.json: words and ids computed by the Hugging Face `tokenizers` library (see README.md).

Usage: python3 generate.py MODEL.gguf > oracle.json     (pip install gguf tokenizers)
"""

import json
import random
import sys

import gguf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
PRE = {
    "gpt-2": BYTES,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),
    "llama-bpe": split(LLAMA3),
    "qwen2": split(LLAMA3.replace("{1,3}", "")),
    "tekken": split(TEKKEN),
    "deepseek-v3": pre_tokenizers.Sequence([split(p) for p in DEEPSEEK]),
}

TEXTS = [
    "", " ", "  ", "\n", "\n\n", " \n", "\t\t x", "a", " a", "  a", "a  b   c", "trailing  ", "don't we'll I'd you're they've I'm it's",
    "DON'T WE'LL I'D YOU'RE THEY'VE I'M IT'S", "'s", "''s", "'S", " 's", "'", "'x", "'l", "'re", "'r", "rock'n'roll",
    "1", "12", "123", "1234", "12345678", " 1", "  12", "a1b2", "½ ² Ⅻ ٣٤٥ 一二三 ①", "x=1;\r\ny=2;\r\n\r\n", "if (a && b) {\n\treturn !c;\n}\n",
    "!!!\n\n!!!", " ...\n", "...\r\r\n x", "\r\n \r\n  x", " \u00a0 \u3000 x", "\u2028a\u0085b", "a\u200bb", "tab\tand  two\n\n\nthree",
    "naïve café – “quotes” … ß Ωmega", "大模型推理平台，支持国产芯片。2026年11月21日", "日本語と한국어 und Ελληνικά и русский", "e\u0301 n\u0303 o\u0308",
    "👩‍👩‍👧‍👦 🚀🔥 ✅ é 🇨🇳", "हिन्दी में पाठ", "ภาษาไทย", "עברית عربى ١٢٣", "https://example.com/a?b=c&d=%20#e", "user@example.com, 13800138000",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n", "<|im_start|>user\nhi<|im_end|>", "a" * 300, " " * 100 + "x",
    "=" * 80, "ab" * 200, "The quick brown fox jumps over the lazy dog.", "x²+y³≠∞", "_snake_case__", "$1,234.56 (−5%)", "“‘nested’”", "ſ'ſ 'K K",
]

# For the pre-tokenizers that tell capital letters, marks and punctuation apart.
CASES = [
    "中AB", "中AB文cD", "ABc中", "XMLHttpRequest", "camelCaseID", "ǅx ǅX Xǅ", "ʰAʰB", "\u0301AB", "a\u0301B\u0301c", "-AB -Ab -ab", " AB Ab", "\u0301\u0301", "!\u0301A", "a/b//\n/c", "?//\r\n/x", "$x #y _z @Ab1",
    "\x01a\x02\x03 b\x7f", "«a» “B” —c", "カタカナひらがな漢字abc", "12345中6789", "ª º Ⅷ ⓐ", "\u200dA\u200db", "e\u0301\n\u0301", "+x=<y>|z",
]


def noise(rng):
    alphabet = ["a", "B", "ß", "é", "中", "の", "1", "٣", "½", " ", " ", "\n", "\r", "\t", "\u3000", "'", "'s", "'LL", ".", "!", "-", "🚀", "\u0301", "_"]
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 24)))


def main():
    fields = gguf.GGUFReader(sys.argv[1]).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    bpe = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = PRE["smollm"]
    rng = random.Random(20261121)
    out = []
    for text in TEXTS + [noise(rng) for _ in range(300)] + CASES:
        words = {}
        for name, pre in PRE.items():
            spans = [span for _, span in pre.pre_tokenize_str(text)]
            words[name] = [text[a:b] for a, b in spans]
            assert "".join(words[name]) == text, (name, text)
        out.append({"text": text, "words": words, "smollm2_ids": bpe.encode(text).ids})
    json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
