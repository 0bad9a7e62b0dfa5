"""Runs the demo models from Python; usage: example.py FOLDER_OF_DEMO_MODELS."""

import sys
from pathlib import Path

import numpy

import oaax

folder = Path(sys.argv[1])
with oaax.Model(folder / "scaled_sum.oaax", threads=2) as model:
    print("inputs", model.inputs, "outputs", model.outputs)
    for count in (3, 5):
        x = numpy.arange(1, count + 1, dtype=numpy.float32) * 2
        print("z =", model.run({"x": x, "y": numpy.ones_like(x)})["z"])
    print("weights copied:", model.info["copied"])

with oaax.Model(folder / "nonzero.oaax") as model:  # The data decide the size of the output.
    x = numpy.array([0, 3, 0, -1, 5], numpy.float32)
    print("positions =", model.run({"x": x})["positions"])

with oaax.Model(folder / "gather.oaax") as model:
    x = numpy.array([10, 20, 30], numpy.float32)
    try:
        model.run({"x": x, "index": numpy.array([0, 7])})
    except oaax.OaaxError as error:
        print("as it should be:", error.message)
    print("z =", model.run({"x": x[::-1], "index": numpy.array([0, -1])})["z"])
