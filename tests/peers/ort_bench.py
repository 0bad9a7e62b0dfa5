#!/usr/bin/env python3
"""Times a model in ONNX Runtime round by round, on another program's word.

A benchmark that runs one side after the other measures the machine's mood.  This program stays up
and runs a round whenever it is told to, so that the caller can take turns with its own rounds.

One JSON object a line comes in on stdin, one goes out on stdout:

    {"do": "open", "model": PATH, "threads": N}  ->  {"ok": true, "load_ms": T, "inputs": [NAME, ...]}
    {"do": "inputs", "path": DIR or FILE.npz}    ->  {"ok": true}
    {"do": "run", "times": N}                    ->  {"ok": true, "ns": [T1, ..., TN]}
    {"do": "outputs", "path": DIR}               ->  {"ok": true}     (of the last run)
    {"do": "quit"}                               ->  {"ok": true}, then the end

`ns` are wall times of whole runs in nanoseconds, in order, nothing left out: the first ones are the
caller's to discard.  A failure is {"ok": false, "error": TEXT} and leaves the program running.
Files are as in ort_run.py.  The end of stdin is a quit.
"""
import json
import pathlib
import sys
import time

import models
import ort


class Bench:
    def __init__(self):
        self.session, self.inputs, self.last = None, {}, {}

    def open(self, command):
        begin = time.perf_counter()
        self.session = ort.open_session(command["model"], int(command.get("threads", 1)))
        load = time.perf_counter() - begin
        return {"load_ms": load * 1e3, "inputs": ort.input_names(self.session)}

    def inputs_from(self, command):
        names = ort.input_names(self.session)
        self.inputs = models.read_tensors(pathlib.Path(command["path"]), names)
        missing = [name for name in names if name not in self.inputs]
        if missing:
            raise ValueError(f"no file for: {', '.join(missing)}")
        return {}

    def run(self, command):
        names = [o.name for o in self.session.get_outputs()]
        taken, results = [], []
        for _ in range(int(command["times"])):
            begin = time.perf_counter_ns()
            results = self.session.run(names, self.inputs)
            taken.append(time.perf_counter_ns() - begin)
        self.last = dict(zip(names, results))
        return {"ns": taken}

    def outputs(self, command):
        models.write_tensors(self.last, pathlib.Path(command["path"]))
        return {}


def main():
    bench = Bench()
    actions = {
        "open": bench.open,
        "inputs": bench.inputs_from,
        "run": bench.run,
        "outputs": bench.outputs,
        "quit": lambda command: {},
    }
    for line in sys.stdin:
        command = {}
        try:
            command = json.loads(line)
            answer = {"ok": True, **actions[command["do"]](command)}
        except Exception as error:  # whatever went wrong belongs to the caller
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
        if command.get("do") == "quit":
            return


main()
