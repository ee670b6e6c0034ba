"""Writes wordpiece.json: ids computed by the Hugging Face `tokenizers` library (see README.md).

Usage: python3 generate_wordpiece.py all-minilm-l6-v2/tokenizer.json > wordpiece.json     (pip install tokenizers)
"""

import json
import random
import sys

from generate import TEXTS, noise
from tokenizers import Tokenizer

EXTRA = [
    "Hello, World!", "unaffable", "ÀÉÎÕÜ çñ İstanbul STRASSE ß", "a\u0000b\ufffdc\u200bd\u00ade", "x\ue000y\U000f0000z", "tabs\tand\nnew\r\nlines\u2028x\u0085y",
    "混合 English 和中文。", "𠀀𪜀 豈 々 〇 ㍿", "x" * 100, "x" * 101, "pneumonoultramicroscopicsilicovolcanoconiosis", "don't (stop) [now] {ok} <tag> a_b^c`d~e|f+g=h$i",
    "①②③ ½ ² Ⅷ", "ﬁ ﬂ ＡＢＣ", "Ἀθῆναι σας ΣΑΣ", "ñandú n\u0303andu\u0301", "हिन्दी में", "ภาษาไทย", "\u0378\u05ff", "🚀 rocket", "¿Qué? ¡Sí! «oui» “yes” …", "؟ ، ؛",
]


def main():
    t = Tokenizer.from_file(sys.argv[1])
    t.no_truncation()
    t.no_padding()
    rng = random.Random(20261121)
    texts = [s for s in TEXTS + EXTRA + [noise(rng) for _ in range(150)] if "[" not in s or "]" not in s or "[now]" in s]
    json.dump([{"text": s, "ids": t.encode(s).ids} for s in texts], sys.stdout, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
