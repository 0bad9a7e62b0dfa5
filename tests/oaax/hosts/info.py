"""Loads a model and prints what the runtime says of itself: info.py LIBRARY MODEL."""

import ctypes
import sys


class Config(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int), ("keys", ctypes.c_void_p), ("values", ctypes.c_void_p)]


class ModelConfig(ctypes.Structure):
    _fields_ = [("file_path", ctypes.c_char_p), ("model_data", ctypes.c_void_p), ("model_size", ctypes.c_size_t),
                ("config", Config)]


oaax = ctypes.CDLL(sys.argv[1])
oaax.runtime_init.argtypes = [Config]
oaax.runtime_get_info.restype = ctypes.c_char_p
oaax.runtime_get_error.restype = ctypes.c_char_p
assert oaax.runtime_init(Config()) == 0
model = ModelConfig(sys.argv[2].encode())
assert oaax.runtime_load_models(1, ctypes.byref(model)) == 0, oaax.runtime_get_error()
print(oaax.runtime_get_info().decode())
oaax.runtime_cleanup()
