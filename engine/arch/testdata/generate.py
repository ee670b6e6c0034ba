"""Makes the tiny random models of this folder and what transformers computes with them.

Each architecture gets a folder as save_pretrained writes it (config.json, generation_config.json, model.safetensors) with
expected.json beside: for some lists of token ids the logits of every position (decoders), or the hidden state of every token and
the pooled, normalised embedding (encoders), computed in float32 from the weights as they are stored. See README.md.

    python -m venv v && v/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0
    v/bin/python generate.py
"""

import json
import math
import pathlib

import torch
import transformers as tf

HERE = pathlib.Path(__file__).parent
VOCAB = 96

# Two texts of different length, both longer than every window below.
TEXTS = [
    [3, 17, 42, 95, 8, 8, 61, 30, 77, 12, 54, 19, 88, 2, 40, 71, 25],
    [5, 90, 11, 64, 33, 7, 50, 81, 22],
]


def randomise(model, seed):
    """Weights large enough that every part of the model shows in the result."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g, dtype=torch.float32)
            if p.ndim == 2:
                gain = 0.7 if "embed" in name else 1.6 / math.sqrt(p.shape[1])
                p.copy_(noise * gain)
            elif name.endswith("bias"):
                p.copy_(noise * 0.3)
            elif "gemma" in type(model).__name__.lower():
                p.copy_(noise * 0.25)  # these norms multiply by 1 + weight
            else:
                p.copy_(1 + noise * 0.25)


def numbers(t):
    return [[float(f"{x:.7g}") for x in row] for row in t.tolist()]


def save(name, model, dtype, expect):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model.to(dtype).save_pretrained(folder)
    stored = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        cases = [expect(stored, torch.tensor([ids])) | {"tokens": ids} for ids in TEXTS]
    rows = [json.dumps(c) for c in cases]
    (folder / "expected.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


def decoder(name, config, seed, dtype):
    config._attn_implementation = "eager"
    model = tf.AutoModelForCausalLM.from_config(config)
    randomise(model, seed)
    save(name, model, dtype, lambda m, ids: {"logits": numbers(m(ids).logits[0])})


def encoder(name, model, seed, dtype, pooling):
    randomise(model, seed)

    def expect(m, ids):
        hidden = m(ids).last_hidden_state[0]
        pooled = hidden[0] if pooling == "cls" else hidden.mean(0)
        unit = torch.nn.functional.normalize(pooled, dim=0)
        return {"hidden": numbers(hidden), "embedding": numbers(unit[None])[0]}

    save(name, model, dtype, expect)
    folder = HERE / name
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pool = {
        "word_embedding_dimension": model.config.hidden_size,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pool, indent=2) + "\n")


SHAPE = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)

# Llama 3: grouped heads, a head of its own, rotations slowed by frequency.
decoder("llama", tf.LlamaConfig(**SHAPE, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, rope_parameters={
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32}), 1, torch.float32)

# Mistral: every layer sees the last five tokens; positions stretched by two.
decoder("mistral", tf.MistralConfig(**SHAPE, head_dim=8, rms_norm_eps=1e-5, sliding_window=5, tie_word_embeddings=False, rope_parameters={
    "rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}), 2, torch.bfloat16)

# Qwen2: biases on queries, keys and values; tied head; the second layer has a window.
decoder("qwen2", tf.Qwen2Config(**SHAPE, rms_norm_eps=1e-6, tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, max_window_layers=1,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), 3, torch.float16)

# Qwen3: heads of 16 where dim/heads is 8, norms on queries and keys.
decoder("qwen3", tf.Qwen3Config(**SHAPE, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}), 4, torch.bfloat16)

# Gemma 3: every third layer global with rotations of its own, norms before and after, scaled embedding.
decoder("gemma3", tf.Gemma3TextConfig(**(SHAPE | {"num_hidden_layers": 4}), head_dim=16, rms_norm_eps=1e-6, sliding_window=4, sliding_window_pattern=3,
    query_pre_attn_scalar=24, rope_parameters={
        "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}), 5, torch.bfloat16)

ENCODER = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, hidden_act="gelu",
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)

# BERT: mean of the tokens; two token types, of which a single text uses the first.
encoder("bert", tf.BertModel(tf.BertConfig(**ENCODER, max_position_embeddings=40, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)), 6, torch.float32, "mean")

# XLM-R: positions begin behind the padding token's id; the first token stands for the text.
encoder("xlm-roberta", tf.XLMRobertaModel(tf.XLMRobertaConfig(**ENCODER, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5,
    pad_token_id=1, bos_token_id=0, eos_token_id=2), add_pooling_layer=False), 7, torch.bfloat16, "cls")


def reranker(name, config, kind, seed, dtype, separators):
    """A model that gives one number for two texts: those of TEXTS, joined as the makers of the architecture do."""
    config.num_labels = 1
    model = kind(config)
    randomise(model, seed)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model.to(dtype).save_pretrained(folder)
    stored = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    for first, second in [TEXTS, TEXTS[::-1]]:
        begin, middle, end = separators
        ids = begin + first + middle + second + end
        segments = [0] * (len(begin + first + middle)) + [1] * (len(second + end))
        types = segments if config.type_vocab_size > 1 else [0] * len(ids)
        with torch.no_grad():
            logit = stored(torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits
        assert logit.shape == (1, 1)
        rows.append(json.dumps({"tokens": ids, "segments": segments, "score": float(f"{logit.item():.7g}")}))
    (folder / "expected.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


# Cross-encoders: BERT with its pooler, and XLM-R with a head of its own.
reranker("bert-rerank", tf.BertConfig(**ENCODER, max_position_embeddings=40, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0),
    tf.BertForSequenceClassification, 8, torch.float32, ([1], [2], [2]))
reranker("xlm-roberta-rerank", tf.XLMRobertaConfig(**ENCODER, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5,
    pad_token_id=1, bos_token_id=0, eos_token_id=2), tf.XLMRobertaForSequenceClassification, 9, torch.bfloat16, ([0], [2, 2], [2]))
