"""Makes the small adapters of this folder and what transformers with peft computes with them.

Each folder is as save_pretrained of peft writes it, without the model card, with expected.json beside: for two lists of token ids the
logits of every position (decoders), or the mean of the hidden states, of length 1 (encoder), computed in float32 with the adapter
applied, not merged. The models are those of ../../arch/testdata. See README.md.

    python -m venv v && v/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 peft==0.21.2
    v/bin/python generate.py
"""

import json
import math
import pathlib
import shutil

import peft
import torch
import transformers as tf

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent.parent / "arch" / "testdata"
TEXTS = [[5, 90, 11, 64, 33, 7, 50, 81, 22], [3, 17, 42, 95, 8]]

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def randomise(model, seed):
    """Factors large enough that every product with them shows in the result."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                gain = 0.8 / math.sqrt(p.shape[1] if "lora_A" in name else 4 * p.shape[1])
                p.copy_(torch.randn(p.shape, generator=g) * gain)


def numbers(t):
    return [[float(f"{x:.7g}") for x in row] for row in t.tolist()]


def make(name, base, kind, dtype, seed, **settings):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model = kind.from_pretrained(MODELS / base, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(lora_dropout=0.1, **settings))
    randomise(model, seed)
    for n, p in model.named_parameters():
        if "lora_" in n:
            p.data = p.data.to(dtype)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(folder, save_embedding_layers=False)  # else a head comes with a copy of the frozen weights
    (folder / "README.md").unlink()
    (folder / "adapter_model.safetensors").chmod(0o644)

    stored = kind.from_pretrained(MODELS / base, dtype=torch.float32, attn_implementation="eager")
    stored = peft.PeftModel.from_pretrained(stored, folder).to(torch.float32).eval()
    rows = []
    for ids in TEXTS:
        with torch.no_grad():
            out = stored(torch.tensor([ids]))
        if kind is tf.AutoModel:
            mean = out.last_hidden_state[0].mean(0)
            case = {"embedding": numbers((mean / mean.norm())[None])[0]}
        else:
            case = {"logits": numbers(out.logits[0])}
        rows.append(json.dumps(case | {"tokens": ids}))
    (folder / "expected.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


CAUSAL = tf.AutoModelForCausalLM
make("llama", "llama", CAUSAL, torch.float32, 1, r=4, lora_alpha=8, target_modules=ALL,
     rank_pattern={"q_proj": 6, "layers.1.self_attn.v_proj": 2}, alpha_pattern={r"^model\.layers\.0\..*down_proj": 3}, task_type="CAUSAL_LM")
make("llama-head", "llama", CAUSAL, torch.bfloat16, 2, r=3, lora_alpha=4, use_rslora=True, target_modules=["k_proj", "lm_head"],
     task_type="CAUSAL_LM")
make("qwen2", "qwen2", CAUSAL, torch.float16, 3, r=8, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM")
make("gemma3", "gemma3", CAUSAL, torch.bfloat16, 4, r=2, lora_alpha=4, target_modules="all-linear", task_type="CAUSAL_LM")
make("bert", "bert", tf.AutoModel, torch.float32, 5, r=4, lora_alpha=6, target_modules=["query", "value", "dense"], task_type="FEATURE_EXTRACTION")
