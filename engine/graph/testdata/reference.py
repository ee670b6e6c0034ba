"""Writes torch.json: small graphs, their inputs, and what PyTorch computes for them. Run: python reference.py > torch.json"""
import json, math, torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
cases = []


def r32(t):
    return t.to(torch.float32).to(torch.float64)


def rand(*shape):
    return r32(torch.randn(*shape))


def pack(t):
    return {"shape": list(t.shape), "data": [float("%.9g" % x) for x in t.to(torch.float32).flatten()]}


def ints(values):
    return {"shape": [len(values)], "ints": values}


def case(name, lines, inputs, weights, want, positions=None, sequence=None):
    def dims(k, t):
        return ", ".join([("T" if i == 0 else str(d)) for i, d in enumerate(t.shape)])
    text = "graph %s {\n  symbol T in 1..64\n  symbol S in 1..8\n" % name
    given = {}
    for k, v in inputs.items():
        if isinstance(v, dict):
            text += "  input %%%s : i32[T]\n" % k
            given[k] = v
        else:
            text += "  input %%%s : f32[%s]\n" % (k, dims(k, v))
            given[k] = pack(v)
    for k, v in weights.items():
        text += "  weight @%s : f32[%s] class=other\n" % (k, ", ".join(str(d) for d in v.shape))
    text += "".join("  %s\n" % l for l in lines) + "  return %y\n}\n"
    cases.append({"name": name, "graph": text, "inputs": given, "weights": {k: pack(v) for k, v in weights.items()},
                  "positions": positions, "sequence": sequence, "want": pack(want)})


def act(fn, t):
    return {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"), "relu": F.relu, "tanh": torch.tanh,
            "sigmoid": torch.sigmoid}[fn](t)


x = rand(3, 8) * 3
for fn in ["silu", "gelu", "gelu_tanh", "relu", "tanh", "sigmoid"]:
    case("act_" + fn, ['%%y = act(%%x) {fn="%s"}' % fn], {"x": x}, {}, act(fn, x))
    case("glu_" + fn, ['%%y = glu(%%x) {fn="%s"}' % fn], {"x": x}, {}, act(fn, x[:, :4]) * x[:, 4:])
w, b = rand(8), rand(8)
case("rmsnorm", ["%y = rmsnorm(%x, @w) {eps=0.01}"], {"x": x}, {"w": w}, F.rms_norm(x, (8,), w, 0.01))
w4, res = rand(4), rand(3, 8)
case("rmsnorm_groups", ["%y = rmsnorm(%x, @w, %r) {eps=0.01, groups=2, residual=true}"], {"x": x, "r": res}, {"w": w4},
     F.rms_norm(x.view(3, 2, 4), (4,), w4, 0.01).view(3, 8) + res)
case("layernorm", ["%y = layernorm(%x, @w, @b) {eps=0.01}"], {"x": x}, {"w": w, "b": b}, F.layer_norm(x, (8,), w, b, 0.01))
m, mb = rand(5, 8), rand(5)
case("matmul", ["%y = matmul(%x, @m, @b, %r) {bias=true, residual=true}"], {"x": x, "r": rand(3, 5)}, {"m": m, "b": mb}, x @ m.T + mb)
cases[-1]["want"] = pack(x @ m.T + mb + torch.tensor(cases[-1]["inputs"]["r"]["data"]).view(3, 5))
case("softmax", ["%y = softmax(%x)"], {"x": x}, {}, F.softmax(x, -1))
case("normalize", ["%y = normalize(%x)"], {"x": x}, {}, F.normalize(x, dim=-1))
case("softcap", ["%y = softcap(%x) {by=2.5}"], {"x": x}, {}, 2.5 * torch.tanh(x / 2.5))
case("add_row", ["%y = add(%x, @b)"], {"x": x}, {"b": b}, x + b)
case("mul_row", ["%y = mul(%x, @b)"], {"x": x}, {"b": b}, x * b)
case("scale_slice", ["%s = slice(%x) {from=2, to=5}", "%y = scale(%s) {by=-1.5}"], {"x": x}, {}, x[:, 2:5] * -1.5)
table = rand(9, 4)
case("embed", ["%y = embed(%ids, @t) {scale=2, offset=1}"], {"ids": ints([0, 7, 3])}, {"t": table}, table[torch.tensor([1, 8, 4])] * 2)
seq = [0, 1, 0]
case("pool_mean", ['%y = pool(%x) {kind="mean"}'], {"x": x}, {}, torch.stack([(x[0] + x[2]) / 2, x[1]]), sequence=seq)
case("pool_cls", ['%y = pool(%x) {kind="cls"}'], {"x": x}, {}, torch.stack([x[0], x[1]]), sequence=seq)
case("pool_last", ['%y = pool(%x) {kind="last"}'], {"x": x}, {}, torch.stack([x[2], x[1]]), sequence=seq)


def rotate(t, heads, dim, rotated, base, pos, neox, freqs=None, factor=1.0):
    """Rotary embedding with complex numbers: not how the Go code does it."""
    t = t.view(t.shape[0], heads, dim).clone()
    inv = base ** (-torch.arange(0, rotated, 2) / rotated)
    if freqs is not None:
        inv = inv / freqs
    turn = torch.polar(torch.ones(len(pos), rotated // 2), torch.outer(torch.tensor(pos, dtype=torch.float64) / factor, inv))[:, None, :]
    part = t[..., :rotated]
    if neox:
        z = torch.complex(part[..., :rotated // 2].contiguous(), part[..., rotated // 2:].contiguous()) * turn
        t[..., :rotated] = torch.cat([z.real, z.imag], -1)
    else:
        z = torch.view_as_complex(part.reshape(*part.shape[:-1], -1, 2).contiguous()) * turn
        t[..., :rotated] = torch.view_as_real(z).flatten(-2)
    return t.flatten(1)


pos, seq = [0, 5, 1, 6, 2, 7], [0, 1, 0, 1, 0, 1]
q = rand(6, 16)
fr = rand(3).abs() + 0.5
for style in ["neox", "interleaved"]:
    case("rope_" + style, ['%%y = rope(%%q) {heads=2, dim=8, rotated=8, rope="%s", rope_base=10000}' % style], {"q": q}, {},
         rotate(q, 2, 8, 8, 10000.0, pos, style == "neox"), pos, seq)
    case("rope_part_" + style, ['%%y = rope(%%q, @f) {heads=2, dim=8, rotated=6, rope="%s", rope_base=500, rope_factor=4, freqs=true}' % style], {"q": q},
         {"f": fr}, rotate(q, 2, 8, 6, 500.0, pos, style == "neox", fr, 4.0), pos, seq)


def attend(q, k, v, heads, kv, dim, scale, pos, seq, causal, window=0, cap=0.0):
    n = q.shape[0]
    q, k, v = q.view(n, heads, dim).transpose(0, 1), k.view(n, kv, dim).transpose(0, 1), v.view(n, kv, dim).transpose(0, 1)
    k, v = k.repeat_interleave(heads // kv, 0), v.repeat_interleave(heads // kv, 0)
    p, s = torch.tensor(pos), torch.tensor(seq)
    see = s[:, None] == s[None, :]
    if causal:
        see &= p[None, :] <= p[:, None]
        if window:
            see &= p[None, :] > p[:, None] - window
    if cap:
        score = cap * torch.tanh(q @ k.transpose(1, 2) * scale / cap)
        out = F.softmax(score.masked_fill(~see, -math.inf), -1) @ v
    else:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=see, scale=scale)
    return out.transpose(0, 1).flatten(1)


q, k, v = rand(6, 32), rand(6, 16), rand(6, 16)
both = {"q": q, "k": k, "v": v}
base = "layer=0, heads=4, kv=2, dim=8, scale=0.4"
case("attention", ["%%y = attention(%%q, %%k, %%v) {%s}" % base], both, {}, attend(q, k, v, 4, 2, 8, 0.4, pos, seq, False), pos, seq)
case("attention_causal", ["%%y = attention(%%q, %%k, %%v) {%s, causal=true}" % base], both, {}, attend(q, k, v, 4, 2, 8, 0.4, pos, seq, True), pos, seq)
case("attention_window", ["%%y = attention(%%q, %%k, %%v) {%s, causal=true, window=2}" % base], both, {},
     attend(q, k, v, 4, 2, 8, 0.4, pos, seq, True, 2), pos, seq)
case("attention_softcap", ["%%y = attention(%%q, %%k, %%v) {%s, causal=true, softcap=1.5}" % base], both, {},
     attend(q, k, v, 4, 2, 8, 0.4, pos, seq, True, 0, 1.5), pos, seq)
qn, kn, f4 = rand(8), rand(8), rand(4).abs() + 0.5
norm = lambda t, w, h: F.rms_norm(t.view(6, h, 8), (8,), w, 1e-6).flatten(1)
qr = rotate(norm(q, qn, 4), 4, 8, 8, 100.0, pos, True, f4)
kr = rotate(norm(k, kn, 2), 2, 8, 8, 100.0, pos, True, f4)
case("attention_packed", ['%%y = attention(%%p, @qn, @kn, @f) {%s, causal=true, packed=true, qnorm=true, knorm=true, freqs=true, eps=1e-06, rope="neox", '
                          'rotated=8, rope_base=100}' % base],
     {"p": torch.cat([q, k, v], 1)}, {"qn": qn, "kn": kn, "f": f4}, attend(qr, kr, v, 4, 2, 8, 0.4, pos, seq, True), pos, seq)

img, kern, kb = rand(2, 4, 7, 6), rand(6, 2, 3, 3), rand(6)
case("conv2d", ['%y = conv2d(%x, @k, @b) {stride=2, pad=1, groups=2, bias=true, fn="relu"}'], {"x": img}, {"k": kern, "b": kb},
     F.relu(F.conv2d(img, kern, kb, stride=2, padding=1, groups=2)))
wide = rand(3, 4, 2, 3)
case("conv2d_dilation", ["%y = conv2d(%x, @k) {dilation=2, pad=2}"], {"x": img}, {"k": wide}, F.conv2d(img, wide, padding=2, dilation=2))
g4, b4, m4, v4 = rand(4), rand(4), rand(4), rand(4).abs() + 0.1
case("batchnorm", ["%y = batchnorm(%x, @w, @b, @m, @v) {eps=0.001}"], {"x": img}, {"w": g4, "b": b4, "m": m4, "v": v4},
     F.batch_norm(img, m4, v4, g4, b4, False, 0, 0.001))
case("maxpool2d", ["%y = maxpool2d(%x) {kernel=3, stride=2, pad=1}"], {"x": img}, {}, F.max_pool2d(img, 3, 2, 1))
case("avgpool2d", ["%y = avgpool2d(%x) {kernel=3, stride=2, pad=1}"], {"x": img}, {}, F.avg_pool2d(img, 3, 2, 1, count_include_pad=False))
case("avgpool2d_pad", ["%y = avgpool2d(%x) {kernel=3, stride=2, pad=1, include_pad=true}"], {"x": img}, {}, F.avg_pool2d(img, 3, 2, 1))
case("globalavgpool", ["%y = globalavgpool(%x)"], {"x": img}, {}, img.mean((2, 3)))
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
