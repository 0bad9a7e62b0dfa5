"""A host in Python over ctypes alone: init, load, send, retrieve, a failure, clean up.

usage: host.py LIBRARY DOUBLE-MODEL PICK-MODEL
"""

import ctypes
import json
import sys
from ctypes import POINTER, c_ubyte

from oaax2 import ModelConfig, config, floats, open_library, release, retrieve, tensors

library_path, double_path, pick_path = sys.argv[1:]
oaax = open_library(library_path)
assert oaax.runtime_get_info() is None
assert oaax.runtime_init(config(num_threads="1")) == 0
with open(double_path, "rb") as file:
    double = file.read()
configs = (ModelConfig * 2)()
configs[0].model_data = ctypes.cast(ctypes.create_string_buffer(double, len(double)), POINTER(c_ubyte))
configs[0].model_size = len(double)
configs[1].file_path = pick_path.encode()
assert oaax.runtime_load_models(2, configs) == 0, oaax.runtime_get_error()
assert json.loads(oaax.runtime_get_info())["loaded_models"] == 2

assert oaax.runtime_enqueue_input(0, tensors(5, [("x", 1, [1, 4], floats(1, 2, 3, 4.5))])) == 0
status, model, output = retrieve(oaax, -1)
assert (status, model, output[0].id) == (0, 0, 5)
result = output[0].tensors[0]
assert ctypes.string_at(result.name) == b"y" and result.shape[: result.rank] == [1, 4]
assert ctypes.cast(result.data, POINTER(ctypes.c_float))[:4] == [2, 4, 6, 9]
release(output)

index = (ctypes.c_longlong * 2)(0, 1000)
assert oaax.runtime_enqueue_input(1, tensors(77, [("x", 1, [3], floats(1, 2, 3)), ("index", 7, [2], index)])) == 0
status, model, output = retrieve(oaax, -1)
assert (status, model, bool(output)) == (13, 1, False) and b"77" in oaax.runtime_get_error()
assert retrieve(oaax, 0)[0] == 12

refused = tensors(6, [("x", 6, [1, 4], floats(1, 2, 3, 4))])
assert oaax.runtime_enqueue_input(0, refused) == 11
release(refused)
assert oaax.runtime_cleanup() == 0 and oaax.runtime_get_error() is None
print(oaax.runtime_get_name().decode(), oaax.runtime_get_version().decode())
