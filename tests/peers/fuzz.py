#!/usr/bin/env python3
"""Small random models: built once, run at two sizes, compared with ONNX Runtime.

    .venv/bin/python tests/peers/fuzz.py [--count N] [--seed S] [--kind KIND] [--oaaxc PROGRAM] [--jobs N] [--keep DIR]

Model number i has the seed S + i and is a function of it alone, so `--seed X --count 1` makes a failing
one again; it is kept, with its inputs, in DIR/X.  Each model is compiled for one of the levels v2, v3
and v4, drawn with it.  Float outputs must be within 1e-4 of ONNX Runtime's, relative to their scale,
integer ones equal; what was quantised may be one step off.  A model that ONNX Runtime refuses is not counted.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import models
import ort

F = T.FLOAT
LEVELS = ["cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4"]
ACTIVATIONS = ["Relu", "Sigmoid", "HardSwish", "Tanh", "LeakyRelu", "Elu", "Softplus", "Mish", "Gelu", "HardSigmoid"]


class Model:
    """A model under construction: the random numbers, nodes, constants, inputs and feeds."""

    def __init__(self, seed):
        self.r, self.n = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.feeds, self.opset, self.quantum = [{}, {}], 20, 0.0

    def pick(self, *choices):
        return self.r.choice(choices)

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(nh.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, scale=None):
        fan = max(1, int(np.prod(shape[1:])))
        return self.constant((self.n.standard_normal(shape) * (scale or fan ** -0.5)).astype(np.float32))

    def input(self, shapes, dtype=np.float32, low=None, high=None, symbols=None):
        """Two shapes; dims that differ become symbols."""
        name = f"x{len(self.inputs)}"
        for feed, shape in zip(self.feeds, shapes):
            if np.dtype(dtype).kind == "f":
                feed[name] = self.n.standard_normal(shape).astype(dtype)
            else:
                feed[name] = np.asarray(self.n.integers(low, high, shape, endpoint=True)).astype(dtype)
        symbols = symbols or [f"{name}_{i}" for i in range(len(shapes[0]))]
        dims = [a if a == b else s for a, b, s in zip(*shapes, symbols)]
        self.inputs.append(h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims))
        return name

    def op(self, kind, *operands, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        domain = attributes.pop("domain", "")
        self.nodes.append(h.make_node(kind, list(operands), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def activation(self, x):
        return self.op(self.pick(*ACTIVATIONS), x) if self.r.random() < 0.6 else x

    def output(self, *names):
        self.outputs += names

    def graph(self):
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = h.make_graph(self.nodes, "fuzz", self.inputs, outputs, self.constants)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=9)
        inferred = onnx.shape_inference.infer_shapes(model)
        types = {v.name: v.type.tensor_type.elem_type for v in [*inferred.graph.value_info, *inferred.graph.output]}
        for value in model.graph.output:
            value.CopyFrom(h.make_tensor_value_info(value.name, types.get(value.name) or F, None))
        return model


def spatial(m, dims, least=10, most=24):
    return [[m.r.randint(least, most) for _ in range(dims)] for _ in range(2)]


def image(m, channels, dims, **kw):
    return m.input([[m.pick(1, 2), channels, *s] for s in spatial(m, dims, **kw)])


def conv_attributes(m, dims):
    kernel = [m.pick(1, 2, 3, 3, 5) for _ in range(dims)]
    attributes = {"strides": [m.pick(1, 1, 2, 3) for _ in range(dims)], "dilations": [m.pick(1, 1, 2) for _ in range(dims)]}
    if m.r.random() < 0.25:
        attributes["auto_pad"] = m.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        attributes["dilations"] = [1] * dims
    else:
        attributes["pads"] = [m.pick(0, 1, 2) for _ in range(2 * dims)]
    return kernel, attributes


def conv(m):
    dims = m.pick(1, 2, 2, 2, 3)
    groups = m.pick(1, 1, 1, 2, 4)
    ins, outs = groups * m.pick(1, 3, 5, 8, 16), groups * m.pick(1, 4, 7, 16, 20, 33)
    kernel, attributes = conv_attributes(m, dims)
    x = image(m, ins, dims)
    bias = [m.weight(outs)] if m.r.random() < 0.7 else []
    y = m.op("Conv", x, m.weight(outs, ins // groups, *kernel), *bias, group=groups, kernel_shape=kernel, **attributes)
    if m.r.random() < 0.3:
        ones = lambda low: m.constant((m.n.random(outs) + low).astype(np.float32))
        y = m.op("BatchNormalization", y, ones(0.5), m.weight(outs), m.weight(outs), ones(0.5))
    y = m.activation(y)
    if m.r.random() < 0.3:
        y = m.op("Add", y, m.op("Conv", y, m.weight(outs, outs, *[1] * dims)))
    m.output(y)


def depthwise(m):
    channels, dims = m.pick(3, 8, 16, 17, 33), m.pick(1, 2, 2)
    kernel, attributes = conv_attributes(m, dims)
    x = image(m, channels, dims)
    multiplier = m.pick(1, 1, 2)
    y = m.op("Conv", x, m.weight(channels * multiplier, 1, *kernel), group=channels, kernel_shape=kernel, **attributes)
    m.output(m.activation(y))


def transposed(m):
    dims, groups = m.pick(1, 2, 2), m.pick(1, 1, 2)
    ins, outs = groups * m.pick(1, 3, 8), groups * m.pick(1, 4, 9)
    kernel = [m.pick(1, 2, 3, 4) for _ in range(dims)]
    strides = [m.pick(1, 2, 3) for _ in range(dims)]
    pads = [m.r.randint(0, min(1, k - 1)) for k in kernel] * 2
    extra = [m.r.randint(0, s - 1) for s in strides]
    x = image(m, ins, dims, least=3, most=12)
    m.output(m.activation(m.op("ConvTranspose", x, m.weight(ins, outs // groups, *kernel), m.weight(outs), group=groups,
                               strides=strides, pads=pads, output_padding=extra)))


def pool(m):
    dims = m.pick(1, 2, 2, 3)
    x = image(m, m.pick(1, 3, 8), dims)
    kind = m.pick("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool")
    if kind.startswith("Global"):
        return m.output(m.op(kind, x))
    kernel = [m.pick(1, 2, 3, 4) for _ in range(dims)]
    attributes = {"kernel_shape": kernel, "strides": [m.pick(1, 2, 3) for _ in range(dims)],
                  "pads": [m.r.randint(0, (k - 1) // 2) for k in kernel] * 2, "ceil_mode": m.pick(0, 0, 1)}
    if kind == "AveragePool":
        attributes["count_include_pad"] = m.pick(0, 1)
    if kind == "MaxPool" and m.r.random() < 0.4:
        return m.output(*m.op(kind, x, outputs=2, **attributes))
    m.output(m.op(kind, x, **attributes))


def product(m):
    k, n = m.pick(1, 3, 8, 33, 100), m.pick(1, 5, 16, 40, 97)
    rows = [m.pick(1, 2, 7, 13, 50, 130) for _ in range(2)]
    if m.r.random() < 0.5:
        across, over = m.pick(0, 1), m.pick(0, 1)
        x = m.input([[k, r] if across else [r, k] for r in rows])
        c = m.pick(m.weight(n), m.weight(1, n), m.weight(1), m.weight(1, 1))
        y = m.op("Gemm", x, m.weight(*([n, k] if over else [k, n])), c, transA=across, transB=over, alpha=0.5, beta=m.pick(1.0, 2.0))
        return m.output(m.activation(y))
    lead = m.pick([], [3], [2, 3])
    x = m.input([[*lead, r, k] for r in rows])
    kind = m.pick("weight", "batched", "vector", "broadcast", "two")
    if kind == "two":
        other = m.input([[*lead, k, n]] * 2)
    else:
        shape = {"weight": [k, n], "batched": [*lead, k, n], "vector": [k], "broadcast": [*[1] * len(lead), k, n]}[kind]
        other = m.weight(*shape, scale=k ** -0.5)
    y = m.op("MatMul", x, other)
    if kind != "vector" and m.r.random() < 0.7:
        y = m.op("Add", y, m.weight(n))
    m.output(m.activation(y))


def einsum(m):
    form = m.pick("bij,bjk->bik", "bij,bkj->bik", "bhid,bhjd->bhij", "ij,jk->ki", "bij->bji", "bij,bj->bi", "bii->bi")
    sizes = [{c: m.r.randint(1, 9) for c in "bijkhd"} for _ in range(2)]
    terms = form.split("->")[0].split(",")
    m.output(m.op("Einsum", *[m.input([[s[c] for c in t] for s in sizes], symbols=list(t)) for t in terms], equation=form))


def attention(m):
    heads, depth = m.pick(1, 2, 4), m.pick(4, 8, 16)
    width = heads * depth
    b = m.pick(1, 2)
    lengths = [m.r.randint(1, 40) for _ in range(2)]
    x = m.input([[b, n, width] for n in lengths], symbols=["B", "S", "W"])

    def split(perm):
        y = m.op("Add", m.op("MatMul", x, m.weight(width, width)), m.weight(width))
        return m.op("Transpose", m.op("Reshape", y, m.constant(np.int64([0, 0, heads, depth]))), perm=perm)

    scores = m.op("MatMul", split([0, 2, 1, 3]), split([0, 2, 3, 1]))
    scores = m.op(m.pick("Mul", "Div"), scores, m.constant(np.float32(depth ** 0.5)))
    if m.r.random() < 0.5:
        mask = m.input([[b, 1, 1, n] for n in lengths], np.int64, 0, 1, symbols=["B", "o", "p", "S"])
        hidden = m.op("Cast", mask, to=T.BOOL)
        scores = m.op("Where", hidden, m.constant(np.float32(-1e4)), scores)
    y = m.op("MatMul", m.op("Softmax", scores, axis=-1), split([0, 2, 1, 3]))
    y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]), m.constant(np.int64([0, 0, width])))
    y = m.op("Add", x, m.op("MatMul", y, m.weight(width, width)))
    m.output(m.op("LayerNormalization", y, m.weight(width), m.weight(width), axis=-1))


def normalise(m):
    kind = m.pick("LayerNormalization", "InstanceNormalization", "BatchNormalization", "LRN", "LpNormalization",
                  "MeanVarianceNormalization", "rms", "Softmax", "LogSoftmax", "Hardmax")
    channels = m.pick(1, 3, 8, 17)
    if kind in ("InstanceNormalization", "LRN", "MeanVarianceNormalization", "BatchNormalization"):
        x = image(m, channels, 2, least=2, most=12)
        c = lambda: m.weight(channels, scale=1.0)
        positive = m.constant((m.n.random(channels) + 0.5).astype(np.float32))
        return m.output({"InstanceNormalization": lambda: m.op(kind, x, c(), c()), "LRN": lambda: m.op(kind, x, size=m.pick(1, 3, 5)),
                         "MeanVarianceNormalization": lambda: m.op(kind, x),
                         "BatchNormalization": lambda: m.op(kind, x, c(), c(), c(), positive)}[kind]())
    rank = m.pick(2, 3, 4)
    width = m.pick(1, 5, 16, 33)
    x = m.input([[m.r.randint(1, 9) for _ in range(rank - 1)] + [width] for _ in range(2)])
    if kind == "rms":
        mean = m.op("ReduceMean", m.op("Mul", x, x), m.constant(np.int64([-1])))
        return m.output(m.op("Mul", m.op("Div", x, m.op("Sqrt", m.op("Add", mean, m.constant(np.float32(1e-5))))), m.weight(width)))
    if kind == "LayerNormalization":
        return m.output(m.op(kind, x, m.weight(width), *m.pick([], [m.weight(width)]), axis=-1))
    attributes = {"p": m.pick(1, 2)} if kind == "LpNormalization" else {}
    m.output(m.op(kind, x, axis=m.r.randint(-rank, rank - 1), **attributes))


def reduce(m):
    m.opset = 18
    rank = m.pick(1, 2, 3, 4)
    x = m.input([[m.r.randint(1, 12) for _ in range(rank)] for _ in range(2)])
    kind = m.pick("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare", "ArgMax", "ArgMin", "TopK", "CumSum")
    axis = m.r.randint(-rank, rank - 1)
    if kind.startswith("Arg"):
        return m.output(m.op(kind, x, axis=axis, keepdims=m.pick(0, 1), select_last_index=m.pick(0, 1)))
    if kind == "TopK":
        return m.output(*m.op(kind, x, m.constant(np.int64([1])), outputs=2, axis=axis, largest=m.pick(0, 1)))
    if kind == "CumSum":
        return m.output(m.op(kind, x, m.constant(np.int64(axis)), exclusive=m.pick(0, 1), reverse=m.pick(0, 1)))
    axes = m.r.sample(range(rank), m.r.randint(1, rank))
    operands = [m.constant(np.int64(axes))] if m.r.random() < 0.8 else []
    if kind == "LogSum":
        x = m.op("Add", m.op("Abs", x), m.constant(np.float32(0.1)))
    m.output(m.activation(m.op("Reduce" + kind, m.op("Add", x, m.constant(np.float32(0.5))), *operands, keepdims=m.pick(0, 1))))


def resize(m):
    # Even sizes: where a scaled size is no integer, ONNX Runtime and ONNX's reference disagree on its corners.
    x = m.input([[1, m.pick(1, 3), 2 * a, 2 * b] for a, b in spatial(m, 2, 2, 6)])
    mode = m.pick("nearest", "linear", "linear", "cubic")
    where = m.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        attributes["nearest_mode"] = m.pick("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if mode == "cubic":
        attributes["exclude_outside"] = m.pick(0, 1) if where != "align_corners" else 0
    # Powers of two, so that positions on a border between two pixels are exact on both sides.
    scales = np.float32([1, 1, m.pick(0.5, 1, 2, 4), m.pick(0.5, 1, 2, 4)])
    m.output(m.op("Resize", x, "", m.constant(scales), **attributes))


def integers(m):
    kind = m.pick("dynamic", "dynamic", "convinteger", "qlinearconv", "qlinearmatmul", "qdq")
    small = lambda *shape: m.constant(m.n.integers(-60, 60, shape).astype(np.int8))
    if kind == "dynamic":
        k, n = m.pick(3, 16, 40, 65), m.pick(4, 17, 32)
        x = m.input([[r, k] for r in m.r.sample([1, 2, 9, 33], 2)])
        q, s, z = m.op("DynamicQuantizeLinear", x, outputs=3)
        y = m.op("MatMulInteger", q, small(k, n), z, *m.pick([], [m.constant(np.int8(3))]))
        return m.output(m.activation(m.op("Mul", m.op("Cast", y, to=F), s)))
    groups = m.pick(1, 1, 2)
    ins, outs = groups * m.pick(1, 3, 8, 16), groups * m.pick(1, 4, 16)
    kernel, attributes = conv_attributes(m, 2)
    attributes |= {"group": groups, "kernel_shape": kernel}
    if kind == "convinteger":
        x = m.input([[1, ins, *s] for s in spatial(m, 2)], np.uint8, 0, 255)
        zero = m.constant(np.uint8(128))
        return m.output(m.op("ConvInteger", x, small(outs, ins // groups, *kernel), zero, **attributes))
    scale = lambda s: m.constant(np.float32(s))
    m.quantum = 1.0
    if kind == "qlinearconv":
        x = m.input([[1, ins, *s] for s in spatial(m, 2)], np.uint8, 0, 255)
        ws = m.constant((m.n.random(outs) * 0.01 + 0.001).astype(np.float32)) if m.r.random() < 0.5 else scale(0.005)
        wz = m.constant(np.zeros(outs, np.int8)) if len(nh.to_array(m.constants[-1]).shape) else m.constant(np.int8(0))
        return m.output(m.op("QLinearConv", x, scale(0.02), m.constant(np.uint8(120)), small(outs, ins // groups, *kernel), ws, wz,
                             scale(0.05), m.constant(np.uint8(128)), **attributes))
    k, n = m.pick(3, 16, 40), m.pick(4, 17, 32)
    rows = m.r.sample([1, 2, 9, 33], 2)
    if kind == "qlinearmatmul":
        x = m.input([[r, k] for r in rows], np.uint8, 0, 255)
        return m.output(m.op("QLinearMatMul", x, scale(0.02), m.constant(np.uint8(120)), small(k, n), scale(0.01), m.constant(np.int8(0)),
                             scale(0.1), m.constant(np.uint8(128))))
    m.quantum = 0.05
    x = m.input([[r, k] for r in rows])
    around = lambda v, s, z: m.op("DequantizeLinear", m.op("QuantizeLinear", v, s, z), s, z)
    a = around(x, scale(0.03), m.constant(np.uint8(128)))
    w = m.op("DequantizeLinear", small(k, n), scale(0.01), m.constant(np.int8(0)))
    m.output(around(m.activation(m.op("MatMul", a, w)), scale(0.05), m.constant(np.uint8(100))))


def value(name, dtype, shape=None):
    return h.make_tensor_value_info(name, dtype, shape)


def control(m):
    kind = m.pick("If", "Loop", "Scan", "LSTM", "GRU", "RNN")
    width = m.pick(1, 3, 8)
    rows = [m.r.randint(1, 6) for _ in range(2)]
    if kind in ("LSTM", "GRU", "RNN"):
        gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], m.pick(1, 5, 16)
        way = m.pick("forward", "reverse", "bidirectional")
        both = 2 if way == "bidirectional" else 1
        x = m.input([[r, m.pick(1, 2), width] for r in rows])
        attributes = {"linear_before_reset": m.pick(0, 1)} if kind == "GRU" else {}
        y = m.op(kind, x, m.weight(both, gates * hidden, width), m.weight(both, gates * hidden, hidden),
                 m.weight(both, 2 * gates * hidden), hidden_size=hidden, direction=way, outputs=2, **attributes)
        return m.output(*y)
    x = m.input([[r, width] for r in rows], symbols=["R", "W"])
    if kind == "If":
        total = m.op("ReduceSum", x, keepdims=0)
        condition = m.op("Greater", total, m.constant(np.float32(0)))
        w = m.weight(width, width)
        branch = lambda tag, nodes: h.make_graph(nodes, tag, [], [value(f"{tag}_y", F)])
        return m.output(m.op("If", condition,
                             then_branch=branch("t", [h.make_node("MatMul", [x, w], ["t_y"])]),
                             else_branch=branch("e", [h.make_node("Relu", [x], ["e_r"]), h.make_node("Neg", ["e_r"], ["e_y"])])))
    if kind == "Loop":
        trips = m.input([[], []], np.int64, 0, 5)
        w = m.weight(width, width, scale=0.3)
        body = h.make_graph([h.make_node("MatMul", ["s", w], ["p"]), h.make_node("Add", ["p", x], ["s_out"]),
                             h.make_node("ReduceSum", ["s_out"], ["scan"], keepdims=0), h.make_node("Identity", ["go"], ["go_out"])],
                            "body", [value("i", T.INT64, []), value("go", T.BOOL, []), value("s", F)],
                            [value("go_out", T.BOOL, []), value("s_out", F), value("scan", F, [])])
        return m.output(*m.op("Loop", trips, m.constant(np.bool_(True)), x, body=body, outputs=2))
    body = h.make_graph([h.make_node("Add", ["s", "row"], ["s_out"]), h.make_node("Tanh", ["s_out"], ["y"])], "body",
                        [value("s", F, [width]), value("row", F, [width])], [value("s_out", F, [width]), value("y", F, [width])])
    m.output(*m.op("Scan", m.weight(width), x, body=body, num_scan_inputs=1, outputs=2))


def movement(m):
    rank = m.pick(2, 3, 4)
    x = m.input([[m.r.randint(2, 9) for _ in range(rank)] for _ in range(2)])
    y = x
    for _ in range(m.r.randint(1, 4)):
        kind = m.pick("Transpose", "Slice", "Pad", "Concat", "Tile", "Gather", "Flip", "Where", "Split", "Roll", "Trilu", "Flatten")
        axis = m.r.randrange(rank)
        ints = lambda *v: m.constant(np.int64(v))
        if kind == "Transpose":
            y = m.op(kind, y, perm=m.r.sample(range(rank), rank))
        elif kind == "Slice":
            y = m.op(kind, y, ints(m.pick(0, 1)), ints(m.pick(2**62, -1)), ints(axis), ints(m.pick(1, 1, 2)))
            y = m.op("Concat", y, y, axis=axis)
        elif kind == "Flip":
            y = m.op("Slice", y, ints(-1), ints(-2**62), ints(axis), ints(-1))
        elif kind == "Pad":
            pads = [m.pick(0, 1) for _ in range(2 * rank)]
            y = m.op(kind, y, ints(*pads), mode=m.pick("constant", "edge", "reflect"))
        elif kind == "Concat":
            y = m.op(kind, y, m.op("Neg", y), y, axis=axis)
        elif kind == "Tile":
            y = m.op(kind, y, ints(*[m.pick(1, 1, 2) for _ in range(rank)]))
        elif kind == "Gather":
            y = m.op(kind, y, ints(0, 1, -1), axis=axis)
        elif kind == "Where":
            y = m.op(kind, m.op("Greater", y, m.constant(np.float32(0))), y, m.op("Mul", y, m.constant(np.float32(0.1))))
        elif kind == "Split":
            a, b = m.op(kind, m.op("Concat", y, y, axis=axis), outputs=2, axis=axis, num_outputs=2)
            y = m.op("Add", a, m.op("Abs", b))
        elif kind == "Roll":
            y = m.op("Concat", m.op("Slice", y, ints(1), ints(2**62), ints(axis)), m.op("Slice", y, ints(0), ints(1), ints(axis)), axis=axis)
        elif kind == "Trilu":
            y = m.op(kind, y, upper=m.pick(0, 1))
        elif kind == "Flatten":
            y = m.op("Add", y, m.op("Reshape", m.op("Flatten", y, axis=axis), m.op("Shape", y)))
    m.output(y)


def indices(m):
    kind = m.pick("GatherElements", "GatherND", "ScatterElements", "ScatterND", "OneHot", "NonZero", "DepthToSpace", "SpaceToDepth")
    if kind in ("DepthToSpace", "SpaceToDepth"):
        x = m.input([[1, 8, 2 * a, 2 * b] for a, b in spatial(m, 2, 1, 6)])
        return m.output(m.op(kind, x, blocksize=2, **({"mode": m.pick("DCR", "CRD")} if kind == "DepthToSpace" else {})))
    rows = [m.r.randint(3, 9) for _ in range(2)]
    x = m.input([[r, 6] for r in rows])
    if kind == "NonZero":
        return m.output(m.op(kind, m.op("Relu", x)))
    if kind == "OneHot":
        i = m.input([[r] for r in rows], np.int64, -5, 4)
        return m.output(m.op(kind, i, m.constant(np.int64(5)), m.constant(np.float32([0.5, 2])), axis=m.pick(-1, 0)))
    if kind == "GatherND":
        return m.output(m.op(kind, x, m.input([[m.r.randint(1, 5), m.pick(1, 2)]] * 2, np.int64, -3, 2)))
    if kind == "GatherElements":
        return m.output(m.op(kind, x, m.input([[r, 4] for r in rows], np.int64, -6, 5), axis=1))
    if kind == "ScatterElements":
        i = m.input([[r, 1] for r in rows], np.int64, -6, 5)
        mode = m.pick("none", "add", "mul", "max", "min")
        return m.output(m.op(kind, x, i, m.input([[r, 1] for r in rows]), axis=1, reduction=mode))
    i = m.constant(np.int64([[2], [0]]))
    m.output(m.op(kind, x, i, m.input([[2, 6], [2, 6]]), reduction=m.pick("none", "add", "mul")))


def elementwise(m):
    rank = m.pick(1, 2, 3, 4)
    shapes = [[m.r.randint(1, 9) for _ in range(rank)] for _ in range(2)]
    symbols = ["A", "B", "C", "D"][:rank]
    pool = [m.input(shapes, symbols=symbols) for _ in range(2)]
    drop = m.r.randrange(rank)
    pool.append(m.input([s[drop:] for s in shapes], symbols=symbols[drop:]))
    pool.append(m.constant(np.float32(m.n.standard_normal())))
    ones = m.r.randrange(rank)
    pool.append(m.input([[1 if i == ones else d for i, d in enumerate(s)] for s in shapes],
                        symbols=["one" if i == ones else d for i, d in enumerate(symbols)]))
    y = pool[0]
    for _ in range(m.r.randint(2, 10)):
        a, b = m.r.choice(pool), m.r.choice(pool)
        kind = m.pick("unary", "binary", "binary", "compare", "clip", "max", "shared")
        if kind == "unary":
            y = m.op(m.pick("Exp", "Tanh", "Sigmoid", "Erf", "Abs", "Neg", "Sin", "Cos", "Atan", "Sqrt", "Log", "Floor", "Ceil", "Round", "Sign",
                            "Reciprocal", *ACTIVATIONS),
                     m.op("Clip", m.op("Add", m.op("Abs", a), m.constant(np.float32(0.25))), "", m.constant(np.float32(8))))
        elif kind == "binary":
            y = m.op(m.pick("Add", "Sub", "Mul"), a, b)
        elif kind == "compare":
            y = m.op("Where", m.op(m.pick("Less", "GreaterOrEqual"), a, b), a, b)
        elif kind == "clip":
            y = m.op("Clip", a, m.constant(np.float32(-1)), m.constant(np.float32(1.5)))
        elif kind == "max":
            y = m.op(m.pick("Max", "Min", "Mean", "Sum"), a, b, pool[0])
        else:
            y = m.op("Div", a, m.op("Add", m.op("Abs", b), m.constant(np.float32(1))))
        y = m.op("Clip", y, m.constant(np.float32(-100)), m.constant(np.float32(100)))
        pool.append(y)
    m.output(y, *m.r.sample([v for v in pool if v.startswith("v") and v != y] or [y], 1)[:1 if len(pool) > 7 else 0])


KINDS = [conv, conv, depthwise, transposed, pool, product, product, einsum, attention, normalise, reduce, resize, integers, integers,
         control, control, movement, movement, indices, elementwise, elementwise]


def make(seed, kind=None):
    m = Model(seed)
    maker = m.r.choice([k for k in KINDS if kind in (None, k.__name__)])
    level = m.r.choice(LEVELS)
    maker(m)
    return maker.__name__, level, m, m.graph()


def fault(name, found, wanted, quantum):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{name} is {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if (np.isfinite(a) != np.isfinite(b)).any() or not np.array_equal(a[~np.isfinite(a)], b[~np.isfinite(b)], equal_nan=True):
        return f"{name} has other infinities or NaNs"
    a, b = a[np.isfinite(b)], b[np.isfinite(b)]
    gap, scale = np.abs(a - b).max(initial=0), np.abs(b).max(initial=0)
    allowed = quantum + (1e-6 + 1e-4 * scale if wanted.dtype.kind == "f" else 0)
    return None if gap <= allowed else f"{name} differs by {gap:.2e} of {scale:.2e}"


def attempt(seed, kind, program, keep):
    """(what it is, None) where it passes or is skipped, else (what it is, why not)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        path = folder / "model.onnx"
        try:
            name, level, m, model = make(seed, kind)
            onnx.save(model, path)
            session = ort.open_session(path, 1)
            wanted = [ort.run(session, feed) for feed in m.feeds]
        except Exception as error:  # whatever ONNX or ONNX Runtime refuses is not our matter
            return "skipped", f"{type(error).__name__}: {str(error)[:200]}" if isinstance(error, (NameError, AttributeError)) else None
        operators = "+".join(node.op_type for node in model.graph.node)
        what = f"{name} {level} {operators}"

        def oaaxc(*arguments):
            try:
                done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return f"oaaxc {arguments[0]}: no end"
            return f"oaaxc {arguments[0]}: exit {done.returncode}: {done.stderr.strip()[:500]}" if done.returncode else None

        why = oaaxc("build", path, "--target", level, "-o", folder / "model.oaax", "-q", "-j", 1)
        for i, feed in enumerate(m.feeds):
            if why:
                break
            models.write_tensors(feed, folder / f"inputs{i}")
            given = [o for n in feed for o in ("--input", f"{n}={folder / f'inputs{i}' / models.file_name(n)}.npy")]
            why = oaaxc("run", folder / "model.oaax", *given, "--output", folder / f"outputs{i}", "--threads", m.pick(1, 2), "-q")
            if not why:
                found = models.read_tensors(folder / f"outputs{i}", wanted[i])
                faults = [fault(n, found[n], w, m.quantum) if n in found else f"no {n}" for n, w in wanted[i].items()]
                why = next(filter(None, faults), None)
                why = why and f"size {i}: {why}; inputs {[list(v.shape) for v in feed.values()]}"
        if why:
            shutil.copytree(folder, keep / str(seed), dirs_exist_ok=True)
        return what, why


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--kind", choices=sorted({kind.__name__ for kind in KINDS}))
    arguments.add_argument("--oaaxc", type=pathlib.Path, default=models.ROOT / "target/release/oaaxc")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--keep", type=pathlib.Path, default=models.ROOT / "target/fuzz")
    options = arguments.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    passed, failed, kinds = 0, 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        results = workers.map(lambda seed: attempt(seed, options.kind, options.oaaxc, options.keep), seeds)
        for seed, (what, why) in zip(seeds, results):
            kinds[what.split()[0]] += 1
            if why:
                failed += 1
                print(f"FAILED  seed {seed}: {what}: {why}", flush=True)
            elif what != "skipped":
                passed += 1
    print("models: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    if failed:
        print(f"failing models are kept in {options.keep}; one again: scripts/fuzz-models --count 1 --seed SEED")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
