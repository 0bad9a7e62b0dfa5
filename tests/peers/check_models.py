#!/usr/bin/env python3
"""Runs every case of tests/models.json in ONNX Runtime: the shapes must be ones that the model takes.

    .venv/bin/python tests/peers/check_models.py [--bench] [NAME...]

A case passes when the model runs and its outputs are finite and not all empty.
"""
import argparse
import sys

import numpy

import models
import ort


def fault(outputs):
    """Why these outputs would show nothing, or None."""
    for name, array in outputs.items():
        if array.dtype.kind == "f" and not numpy.isfinite(array).all():
            return f"{name} is not finite"
    if all(array.size == 0 for array in outputs.values()):
        return "all outputs are empty"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--bench", action="store_true", help="the sizes that are timed, too")
    options = arguments.parse_args()
    n_passed = n_failed = 0
    for name, model in models.all_models().items():
        if options.names and name not in options.names:
            continue
        session = ort.open_session(models.MODELS / model["file"], 1)
        cases = [str(i) for i in range(len(model["cases"]))]
        if options.bench and "bench" in model:
            cases.append("bench")
        for case in cases:
            try:
                outputs = ort.run(session, models.case_inputs(model, case))
                why = fault(outputs)
            except Exception as error:
                outputs, why = {}, str(error)
            n_passed, n_failed = n_passed + (not why), n_failed + bool(why)
            shown = " ".join(f"{k[:24]}{list(v.shape)}±{abs(v).max():.3g}" for k, v in outputs.items())
            print(f"{name} case {case}: {why or shown}")
    print(f"{n_passed} passed, {n_failed} failed")
    sys.exit(bool(n_failed))


main()
