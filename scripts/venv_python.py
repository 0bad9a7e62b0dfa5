"""Importing this runs the script again under .venv's Python, so that `scripts/NAME` works as typed."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

if pathlib.Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        sys.exit("no .venv here: run `scripts/setup test` first")
    os.execv(python, [str(python), *sys.argv])
