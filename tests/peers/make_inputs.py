#!/usr/bin/env python3
"""Writes the seeded inputs of a model of tests/models.json as .npy files.

    .venv/bin/python tests/peers/make_inputs.py NAME --case 0|1|...|bench --output DIR [--seed 0]
"""
import argparse
import pathlib
import sys

import models


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("name")
    arguments.add_argument("--case", default="0")
    arguments.add_argument("--output", type=pathlib.Path, required=True)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    listed = models.all_models()
    if options.name not in listed:
        sys.exit(f"make_inputs: no model called {options.name}; there are {', '.join(listed)}")
    inputs = models.case_inputs(listed[options.name], options.case, options.seed)
    models.write_tensors(inputs, options.output)


main()
