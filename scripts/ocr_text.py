#!/usr/bin/env python3
"""The two ends of the text recogniser: a picture in, the text that its numbers mean out.

    scripts/ocr_text.py draw TEXT --picture FILE.png --input FILE.npy
    scripts/ocr_text.py read MODEL.onnx --output FILE.npy

`draw` renders TEXT as a line of 48 pixels' height and writes it as the model wants it: channels
first, from -1 to 1.  `read` takes the model's output, float[1, steps, characters], and spells it:
the best character of each step, repeats joined, blanks dropped.  The characters stand in the
model's own metadata.
"""
import argparse
import pathlib

from venv_python import ROOT  # before the packages that only .venv has

import numpy
import onnx
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 48


def draw(text, picture, output):
    font = ImageFont.load_default(32)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (right - left + 24, HEIGHT), "white")
    middle = (HEIGHT - (bottom - top)) // 2
    ImageDraw.Draw(image).text((12 - left, middle - top), text, fill="black", font=font)
    image.save(picture)
    pixels = numpy.asarray(image, numpy.float32) / 127.5 - 1.0
    blue_green_red = pixels[:, :, ::-1].transpose(2, 0, 1)
    numpy.save(output, numpy.ascontiguousarray(blue_green_red[None]))


def characters(model):
    """Class 0 is the blank, the last one the space."""
    metadata = onnx.load(model, load_external_data=False).metadata_props
    listed = next(entry.value for entry in metadata if entry.key == "character")
    return ["", *listed.splitlines(), " "]


def read(model, output):
    table = characters(model)
    best = numpy.load(output)[0].argmax(axis=-1)
    changed = numpy.concatenate([[True], best[1:] != best[:-1]])
    return "".join(table[step] for step in best[changed]).strip()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    actions = arguments.add_subparsers(dest="action", required=True)
    drawing = actions.add_parser("draw")
    drawing.add_argument("text")
    drawing.add_argument("--picture", type=pathlib.Path, required=True)
    drawing.add_argument("--input", type=pathlib.Path, required=True)
    reading = actions.add_parser("read")
    reading.add_argument("model", type=pathlib.Path)
    reading.add_argument("--output", type=pathlib.Path, required=True)
    options = arguments.parse_args()
    if options.action == "draw":
        draw(options.text, options.picture, options.input)
    else:
        print(read(options.model, options.output))


main()
