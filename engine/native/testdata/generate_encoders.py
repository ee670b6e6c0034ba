"""Makes tiny random encoders with their tokenizers, and what transformers computes with them from texts.

tiny-e5: a BERT with the tokenizer of XLM-RoBERTa and prefixes, as multilingual-e5-small is. tiny-bert-rerank and tiny-xlmr-rerank:
cross-encoders of both kinds. Each folder gets expected.json. The tokenizer of XLM-RoBERTa is the small one of engine/tokenizer.

    python -m venv v && v/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 tokenizers==0.23.3
    v/bin/python generate_encoders.py
"""

import json
import pathlib

import tokenizers
import torch
import transformers as tf

HERE = pathlib.Path(__file__).parent
XLMR = HERE.parent.parent / "tokenizer" / "testdata" / "small" / "hf-xlmr" / "tokenizer.json"
SHAPE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, hidden_act="gelu",
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

TEXTS = ["", "a", "The engine reads a model.", "用中文问一个问题。", "  several   spaces\tand tabs ", "Mixed 中英文 text, 3.14!"]
QUERY = "哪里可以办理居住证 residence permit?"
DOCUMENTS = ["", "居住证在派出所办理。", "The permit is issued at the police station.", "天气很好", QUERY, "long " * 60]


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if p.ndim == 2:
                p.copy_(noise * (0.7 if "embed" in name else 1.6 / p.shape[1] ** 0.5))
            else:
                p.copy_(noise * 0.3 + (0 if name.endswith("bias") else 1))


def save(name, model, tokenizer, expected):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "expected.json").write_text("[" + ",\n".join(json.dumps(e, ensure_ascii=False) for e in expected) + "]\n")
    return folder


def number(x):
    return float(f"{x:.6g}")


def e5():
    file = json.loads(XLMR.read_text())
    tok = tokenizers.Tokenizer.from_str(json.dumps(file))
    model = tf.BertModel(tf.BertConfig(**SHAPE, vocab_size=tok.get_vocab_size() + 35, max_position_embeddings=64, type_vocab_size=2,
        layer_norm_eps=1e-12, pad_token_id=0), add_pooling_layer=False).eval()
    randomise(model, 11)
    out = []
    for role, prefix in (("query", "query: "), ("passage", "passage: "), ("", "")):
        for text in TEXTS:
            ids = tok.encode(prefix + text).ids
            with torch.no_grad():
                hidden = model(torch.tensor([ids])).last_hidden_state[0]
            unit = torch.nn.functional.normalize(hidden.mean(0), dim=0)
            out.append({"role": role, "text": text, "tokens": len(ids), "vector": [number(x) for x in unit.tolist()]})
    folder = save("tiny-e5", model, file, out)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}\n')
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "query: ", "document": "passage: "}}\n')


def rerank(name, model, file, limit):
    tok = tokenizers.Tokenizer.from_str(json.dumps(file))
    tok.enable_truncation(limit, strategy="only_second")
    out = []
    for document in DOCUMENTS:
        pair = tok.encode(QUERY, document)
        types = pair.type_ids if model.config.type_vocab_size > 1 else [0] * len(pair.ids)
        with torch.no_grad():
            logit = model(torch.tensor([pair.ids]), token_type_ids=torch.tensor([types])).logits
        out.append({"query": QUERY, "document": document, "tokens": len(pair.ids), "score": number(torch.sigmoid(logit).item())})
    save(name, model, file, out)


def bert():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    vocab += ["##" + chr(c) for c in range(97, 123)] + sorted(set("哪里可以办理居住证在派出所天气很好") - set("好"))
    tok = tokenizers.Tokenizer(tokenizers.models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]", max_input_chars_per_word=100))
    tok.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tok.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    config = tf.BertConfig(**SHAPE, vocab_size=len(vocab), max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)
    config.num_labels = 1
    model = tf.BertForSequenceClassification(config).eval()
    randomise(model, 12)
    rerank("tiny-bert-rerank", model, json.loads(tok.to_str()), 64)


def xlmr():
    file = json.loads(XLMR.read_text())
    item = lambda kind, name, segment: {kind: {"id": name, "type_id": segment}}
    file["post_processor"]["pair"] = [item("SpecialToken", "<s>", 0), item("Sequence", "A", 0), item("SpecialToken", "</s>", 0),
        item("SpecialToken", "</s>", 0), item("Sequence", "B", 0), item("SpecialToken", "</s>", 0)]
    size = tokenizers.Tokenizer.from_str(json.dumps(file)).get_vocab_size()
    config = tf.XLMRobertaConfig(**SHAPE, vocab_size=size, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
        bos_token_id=0, eos_token_id=2)
    config.num_labels = 1
    model = tf.XLMRobertaForSequenceClassification(config).eval()
    randomise(model, 13)
    rerank("tiny-xlmr-rerank", model, file, 64)


e5()
bert()
xlmr()
