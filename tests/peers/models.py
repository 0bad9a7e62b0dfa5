"""What the peer tools share: the list of models, seeded inputs, file names of tensors.

The list is tests/models.json.  Of each model it gives the file below .models/, the licence of its
package, `arithmetic` (float or int8), `tolerance` (greatest difference relative to the output's
scale), `cases` (inputs that the model takes, two sizes or more where it is dynamic) and, for the
models that are timed, `bench`.  An input has a `dtype` and a `shape`, and either `value` (all
elements), or `low` and `high`: floats are uniform in [low, high), integers in [low, high], or `page`:
a white NCHW picture with lines of dark text, from low (black) to high (white).  A detector of text
says nothing about noise: all of its scores are below what single precision can tell from 0.
"""
import hashlib
import json
import pathlib
import re

import numpy
from PIL import Image, ImageDraw

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / ".models"


def all_models():
    """{name: entry of tests/models.json}"""
    listed = json.loads((ROOT / "tests/models.json").read_text(encoding="utf-8"))["models"]
    return {model["name"]: model for model in listed}


def file_name(tensor):
    """The file name, without suffix, of a tensor called `tensor`.

    Bytes other than ASCII letters, digits, `_`, `-` and `.` become `%XX`.  A name that would be
    longer than 200 bytes is cut to 150 and gets `%` and 16 hex digits of its SHA-256.
    """
    raw = tensor.encode("utf-8")
    name = re.sub(rb"[^A-Za-z0-9_.-]", lambda m: b"%%%02X" % m.group()[0], raw).decode()
    if len(name) <= 200:
        return name
    return name[:150] + "%" + hashlib.sha256(raw).hexdigest()[:16]


def make_input(name, spec, seed):
    """The array that `spec` describes; equal names and seeds give equal arrays."""
    dtype = numpy.dtype(spec["dtype"])
    if "value" in spec:
        return numpy.full(spec["shape"], spec["value"], dtype)
    if spec.get("page"):
        return page(spec).astype(dtype)
    key = hashlib.sha256(f"{seed} {name}".encode()).digest()[:8]
    draw = numpy.random.Generator(numpy.random.PCG64(int.from_bytes(key, "little")))
    if dtype.kind == "f":
        unit = draw.random(spec["shape"], dtype=numpy.float32)
        return (spec["low"] + unit * (spec["high"] - spec["low"])).astype(dtype)
    return draw.integers(spec["low"], spec["high"], spec["shape"], endpoint=True).astype(dtype)


def page(spec):
    """A picture of text lines, one every 24 pixels."""
    images, channels, height, width = spec["shape"]
    picture = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(picture)
    for line, y in enumerate(range(4, height - 12, 24)):
        draw.text((4 + 3 * (line % 4), y), f"line {line} reads {line * 7919} " * (width // 100 + 1), fill=0)
    unit = numpy.asarray(picture, numpy.float32) / 255
    plane = spec["low"] + unit * (spec["high"] - spec["low"])
    return numpy.broadcast_to(plane, (images, channels, height, width))


def case_inputs(model, case, seed=0):
    """{input: array} of case number `case`, or of `bench`."""
    specs = model["bench"] if case == "bench" else model["cases"][int(case)]
    return {name: make_input(name, spec, seed) for name, spec in specs.items()}


def write_tensors(tensors, folder):
    """One .npy file per tensor of {name: array}."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in tensors.items():
        numpy.save(folder / f"{file_name(name)}.npy", array, allow_pickle=False)


def read_tensors(source, names):
    """{name: array} out of a folder of .npy files, or out of one .npz file."""
    if source.is_dir():
        paths = {name: source / f"{file_name(name)}.npy" for name in names}
        return {n: numpy.load(p, allow_pickle=False) for n, p in paths.items() if p.exists()}
    with numpy.load(source, allow_pickle=False) as archive:
        return {name: archive[name] for name in names if name in archive}
