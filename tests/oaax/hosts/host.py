"""A host in Python over ctypes alone: init, load, send, retrieve, a failure, clean up.

usage: host.py LIBRARY DOUBLE-MODEL PICK-MODEL
"""

import ctypes
import json
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_void_p


class Descriptor(ctypes.Structure):
    _fields_ = [("name", c_void_p), ("data_type", c_int), ("rank", c_int), ("shape", POINTER(c_int)),
                ("data_size", c_size_t), ("data", c_void_p)]


class Tensors(ctypes.Structure):
    _fields_ = [("id", c_int), ("num_tensors", c_int), ("tensors", POINTER(Descriptor))]


class Config(ctypes.Structure):
    _fields_ = [("length", c_int), ("keys", POINTER(c_char_p)), ("values", POINTER(c_char_p))]


class ModelConfig(ctypes.Structure):
    _fields_ = [("file_path", c_char_p), ("model_data", POINTER(c_ubyte)), ("model_size", c_size_t), ("config", Config)]


libc = ctypes.CDLL(None)
libc.malloc.restype = c_void_p
libc.malloc.argtypes = [c_size_t]
libc.free.argtypes = [c_void_p]

library_path, double_path, pick_path = sys.argv[1:]
oaax = ctypes.CDLL(library_path)
oaax.runtime_init.argtypes = [Config]
oaax.runtime_load_models.argtypes = [c_int, POINTER(ModelConfig)]
oaax.runtime_enqueue_input.argtypes = [c_int, POINTER(Tensors)]
oaax.runtime_retrieve_output.argtypes = [POINTER(c_int), POINTER(POINTER(Tensors)), c_int]
for name in ["error", "version", "name", "info"]:
    getattr(oaax, f"runtime_get_{name}").restype = c_char_p


def block(content):
    content = bytes(content)
    start = libc.malloc(max(len(content), 1))
    ctypes.memmove(start, content, len(content))
    return start


def tensors(identity, parts):
    """Parts are (name, type, shape, ctypes array)."""
    made = ctypes.cast(libc.malloc(ctypes.sizeof(Tensors)), POINTER(Tensors))
    array = ctypes.cast(libc.malloc(len(parts) * ctypes.sizeof(Descriptor)), POINTER(Descriptor))
    for index, (name, kind, shape, data) in enumerate(parts):
        sizes = ctypes.cast(block((c_int * len(shape))(*shape)), POINTER(c_int))
        array[index] = Descriptor(block(name.encode() + b"\0"), kind, len(shape), sizes, len(bytes(data)), block(data))
    made[0] = Tensors(identity, len(parts), array)
    return made


def release(output):
    for index in range(output[0].num_tensors):
        tensor = output[0].tensors[index]
        for part in (tensor.name, ctypes.cast(tensor.shape, c_void_p), tensor.data):
            libc.free(part)
    libc.free(ctypes.cast(output[0].tensors, c_void_p))
    libc.free(ctypes.cast(output, c_void_p))


def floats(*numbers):
    return (ctypes.c_float * len(numbers))(*numbers)


def retrieve(timeout):
    model, output = c_int(-1), POINTER(Tensors)()
    return oaax.runtime_retrieve_output(byref(model), byref(output), timeout), model.value, output


assert oaax.runtime_get_info() is None
assert oaax.runtime_init(Config(1, (c_char_p * 1)(b"num_threads"), (c_char_p * 1)(b"1"))) == 0
with open(double_path, "rb") as file:
    double = file.read()
configs = (ModelConfig * 2)()
configs[0].model_data = ctypes.cast(ctypes.create_string_buffer(double, len(double)), POINTER(c_ubyte))
configs[0].model_size = len(double)
configs[1].file_path = pick_path.encode()
assert oaax.runtime_load_models(2, configs) == 0, oaax.runtime_get_error()
assert json.loads(oaax.runtime_get_info())["loaded_models"] == 2

assert oaax.runtime_enqueue_input(0, tensors(5, [("x", 1, [1, 4], floats(1, 2, 3, 4.5))])) == 0
status, model, output = retrieve(-1)
assert (status, model, output[0].id) == (0, 0, 5)
result = output[0].tensors[0]
assert ctypes.string_at(result.name) == b"y" and result.shape[: result.rank] == [1, 4]
assert ctypes.cast(result.data, POINTER(ctypes.c_float))[:4] == [2, 4, 6, 9]
release(output)

index = (ctypes.c_longlong * 2)(0, 1000)
assert oaax.runtime_enqueue_input(1, tensors(77, [("x", 1, [3], floats(1, 2, 3)), ("index", 7, [2], index)])) == 0
status, model, output = retrieve(-1)
assert (status, model, bool(output)) == (13, 1, False) and b"77" in oaax.runtime_get_error()
assert retrieve(0)[0] == 12

refused = tensors(6, [("x", 6, [1, 4], floats(1, 2, 3, 4))])
assert oaax.runtime_enqueue_input(0, refused) == 11
release(refused)
assert oaax.runtime_cleanup() == 0 and oaax.runtime_get_error() is None
print(oaax.runtime_get_name().decode(), oaax.runtime_get_version().decode())
