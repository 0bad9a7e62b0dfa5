#!/usr/bin/env python3
"""Runs a model in ONNX Runtime on given inputs and writes its outputs.

    .venv/bin/python tests/peers/ort_run.py MODEL --inputs DIR|FILE.npz --outputs DIR
        [--threads 1] [--no-optimise] [--report FILE.json]

Inputs are DIR/NAME.npy, outputs become DIR/NAME.npy; models.file_name says how a tensor's name
becomes a file's.  --report writes {"import_ms", "load_ms", "run_ms"}, so that a comparison of
start-up times can leave out Python's own.
"""
import time

BEGIN = time.perf_counter()

import argparse
import json
import pathlib
import sys

import models
import ort

IMPORTED = time.perf_counter()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("model", type=pathlib.Path)
    arguments.add_argument("--inputs", type=pathlib.Path, required=True)
    arguments.add_argument("--outputs", type=pathlib.Path, required=True)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--no-optimise", action="store_true")
    arguments.add_argument("--report", type=pathlib.Path)
    options = arguments.parse_args()

    started = time.perf_counter()
    session = ort.open_session(options.model, options.threads, not options.no_optimise)
    loaded = time.perf_counter()
    inputs = models.read_tensors(options.inputs, ort.input_names(session))
    missing = [n for n in ort.input_names(session) if n not in inputs]
    if missing:
        sys.exit(f"ort_run: {options.inputs} has no file for: {', '.join(missing)}")
    before = time.perf_counter()
    outputs = ort.run(session, inputs)
    after = time.perf_counter()
    models.write_tensors(outputs, options.outputs)
    if options.report:
        times = {"import_ms": IMPORTED - BEGIN, "load_ms": loaded - started, "run_ms": after - before}
        options.report.write_text(json.dumps({k: v * 1e3 for k, v in times.items()}) + "\n")


main()
