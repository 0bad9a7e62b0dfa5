"""OAAX 2.0 over ctypes alone: the structs, the nine functions, and tensors as a host passes them."""

import ctypes
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


def open_library(path):
    """The library with the types of its functions."""
    oaax = ctypes.CDLL(path)
    oaax.runtime_init.argtypes = [Config]
    oaax.runtime_load_models.argtypes = [c_int, POINTER(ModelConfig)]
    oaax.runtime_enqueue_input.argtypes = [c_int, POINTER(Tensors)]
    oaax.runtime_retrieve_output.argtypes = [POINTER(c_int), POINTER(POINTER(Tensors)), c_int]
    for name in ["error", "version", "name", "info"]:
        getattr(oaax, f"runtime_get_{name}").restype = c_char_p
    return oaax


def config(**entries):
    """A Config; `__` in a key stands for a dot."""
    keys = [key.replace("__", ".").encode() for key in entries]
    values = [value.encode() for value in entries.values()]
    return Config(len(keys), (c_char_p * len(keys))(*keys), (c_char_p * len(keys))(*values))


def load(oaax, *paths):
    """Loads files; gives the status."""
    models = (ModelConfig * len(paths))()
    for model, path in zip(models, paths):
        model.file_path = str(path).encode()
    return oaax.runtime_load_models(len(paths), models)


def block(content):
    """A block of the C heap."""
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
    """Frees an output, or an input that was refused, block by block."""
    for index in range(output[0].num_tensors):
        tensor = output[0].tensors[index]
        for part in (tensor.name, ctypes.cast(tensor.shape, c_void_p), tensor.data):
            libc.free(part)
    libc.free(ctypes.cast(output[0].tensors, c_void_p))
    libc.free(ctypes.cast(output, c_void_p))


def floats(*numbers):
    """A C array."""
    return (ctypes.c_float * len(numbers))(*numbers)


def retrieve(oaax, timeout):
    """Status, model, output."""
    model, output = c_int(-1), POINTER(Tensors)()
    return oaax.runtime_retrieve_output(byref(model), byref(output), timeout), model.value, output
