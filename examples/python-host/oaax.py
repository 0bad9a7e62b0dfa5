"""Runs oaaxc artefacts from Python: ctypes and NumPy over liboaaxc_rt, nothing to compile.

    model = oaax.Model("model.oaax")
    outputs = model.run({"x": numpy.ones(3, numpy.float32)})

The library is found by OAAXC_RT, else beside this file's repository (target/runtime/lib), else by the system.
Inputs are passed without a copy where they are contiguous; outputs are NumPy arrays of their own.
"""

import ctypes
import json
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy

TENSOR, SEQUENCE, OPTIONAL, ABSENT = range(4)

# ONNX's TensorProto.DataType ↔ NumPy. Types that NumPy lacks travel as raw integers of their size.
_DTYPES = {
    1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8",
    12: "u4", 13: "u8", 14: "c8", 15: "c16", 16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1", 24: "u1",
}


class OaaxError(RuntimeError):
    """What the runtime says: `status` for programs, `node` the ONNX node to blame or None."""

    def __init__(self, status, message, node):
        super().__init__(f"{node}: {message}" if node else message)
        self.status, self.message, self.node = status, message, node


class _Struct(ctypes.Structure):
    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class _Options(_Struct):
    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), ("cpu_level", c_char_p), ("variant", c_char_p),
                ("manifest_sha256", c_char_p), ("verify_late", c_uint32), ("reserved", c_uint32)]


class _Dim(ctypes.Structure):
    _fields_ = [("size", c_int64), ("symbol", c_char_p), ("min", c_int64), ("max", c_int64), ("multiple", c_int64)]


class _Port(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_uint32), ("name", c_char_p), ("dtype", c_uint32),
                ("rank", c_int32), ("dims", POINTER(_Dim))]


class _Tensor(_Struct):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_uint32), ("rank", c_uint32), ("reserved", c_uint32),
                ("dims", POINTER(c_int64)), ("data", c_void_p), ("bytes", c_uint64)]


class _Value(_Struct):
    _fields_ = [("struct_size", c_uint32), ("kind", c_uint32), ("count", c_uint64), ("tensors", POINTER(_Tensor))]


class _Output(_Struct):
    _fields_ = [("struct_size", c_uint32), ("kind", c_uint32), ("own_data", c_void_p), ("capacity", c_uint64),
                ("data", c_void_p), ("bytes", c_uint64), ("dtype", c_uint32), ("rank", c_uint32),
                ("dims", POINTER(c_int64)), ("count", c_uint64), ("items", POINTER(_Tensor)), ("keep", c_void_p)]


_F = ctypes.CFUNCTYPE


class _Api(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("version", c_uint32),
        ("library_version", _F(c_char_p)),
        ("error_status", _F(c_int32, c_void_p)),
        ("error_message", _F(c_char_p, c_void_p)),
        ("error_node", _F(c_char_p, c_void_p)),
        ("error_release", _F(None, c_void_p)),
        ("open", _F(c_int32, c_char_p, POINTER(_Options), POINTER(c_void_p), POINTER(c_void_p))),
        ("open_memory", _F(c_int32, c_char_p, c_uint64, POINTER(_Options), POINTER(c_void_p), POINTER(c_void_p))),
        ("model_release", _F(None, c_void_p)),
        ("model_info", _F(c_char_p, c_void_p)),
        ("input_count", _F(c_uint32, c_void_p)),
        ("output_count", _F(c_uint32, c_void_p)),
        ("input", _F(POINTER(_Port), c_void_p, c_uint32)),
        ("output", _F(POINTER(_Port), c_void_p, c_uint32)),
        ("session_create", _F(c_int32, c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
        ("session_release", _F(None, c_void_p)),
        ("run", _F(c_int32, c_void_p, c_uint32, POINTER(_Value), c_uint32, POINTER(_Output), POINTER(c_void_p))),
        ("output_release", _F(None, POINTER(_Output))),
    ]


def _load():
    built = Path(__file__).resolve().parents[2] / "target/runtime/lib/liboaaxc_rt.so"
    name = os.environ.get("OAAXC_RT") or (str(built) if built.exists() else "liboaaxc_rt.so")
    get_api = ctypes.CDLL(name).oaaxc_rt_get_api
    get_api.restype, get_api.argtypes = POINTER(_Api), [c_uint32, c_uint32]
    api = get_api(1, 1)
    if not api:
        raise ImportError(f"{name} does not have version 1 of the interface")
    return api.contents


_api = _load()


def _check(status, error):
    if status == 0:
        return
    node = _api.error_node(error)
    failure = OaaxError(status, _api.error_message(error).decode(), node.decode() if node else None)
    _api.error_release(error)
    raise failure


class Port:
    """An input or output: name, ONNX element type, and dims (numbers, symbols, or None)."""

    def __init__(self, port):
        self.name, self.kind, self.dtype = port.name.decode(), port.kind, port.dtype
        dims = [port.dims[axis] for axis in range(max(port.rank, 0))]
        named = lambda dim: dim.size if dim.size >= 0 else (dim.symbol.decode() or None)
        self.shape = None if port.rank < 0 else [named(dim) for dim in dims]
        self.ranges = [(dim.min, dim.max, dim.multiple) for dim in dims]

    def __repr__(self):
        return f"{self.name}: {numpy.dtype(_DTYPES[self.dtype]).name}{self.shape}"


class Model:
    """An open artefact with a session of its own. May be used from many threads."""

    def __init__(self, path, threads=0, cpu_level=None, variant=None, manifest_sha256=None):
        text = lambda value: None if value is None else value.encode()
        options = _Options(threads=threads, cpu_level=text(cpu_level), variant=text(variant),
                           manifest_sha256=text(manifest_sha256))
        self._model, self._session, error = c_void_p(), c_void_p(), c_void_p()
        _check(_api.open(os.fsencode(path), byref(options), byref(self._model), byref(error)), error)
        _check(_api.session_create(self._model, byref(self._session), byref(error)), error)
        self.inputs = [Port(_api.input(self._model, i).contents) for i in range(_api.input_count(self._model))]
        self.outputs = [Port(_api.output(self._model, i).contents) for i in range(_api.output_count(self._model))]
        self.info = json.loads(_api.model_info(self._model))

    def close(self):
        """Releases the model; it may be called twice."""
        _api.session_release(self._session)
        _api.model_release(self._model)
        self._session, self._model = c_void_p(), c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_model", None):
            self.close()

    def run(self, inputs):
        """Runs on a dict of name → array (a list of arrays for a sequence, None for an absent optional)."""
        unknown = set(inputs) - {port.name for port in self.inputs}
        if unknown:
            raise ValueError(f"the model has no input {sorted(unknown)}; it has {[port.name for port in self.inputs]}")
        keep = []  # Everything that C points to lives until the run is over.
        values = (_Value * len(self.inputs))(*[self._value(port, inputs, keep) for port in self.inputs])
        outputs = (_Output * len(self.outputs))(*[_Output() for _ in self.outputs])
        error = c_void_p()
        try:
            _check(_api.run(self._session, len(values), values, len(outputs), outputs, byref(error)), error)
            return {port.name: _result(output) for port, output in zip(self.outputs, outputs)}
        finally:
            for output in outputs:
                _api.output_release(byref(output))

    @staticmethod
    def _value(port, inputs, keep):
        given = inputs.get(port.name)
        if given is None:
            if port.kind != OPTIONAL:
                raise ValueError(f"input {port.name!r} is not given; it is {port!r}")
            return _Value(kind=ABSENT)
        arrays = given if isinstance(given, (list, tuple)) else [given]
        tensors = (_Tensor * len(arrays))(*[_tensor(port, array, keep) for array in arrays])
        keep.append(tensors)
        kind = SEQUENCE if isinstance(given, (list, tuple)) else TENSOR
        return _Value(kind=kind, count=len(arrays), tensors=tensors)


def _tensor(port, array, keep):
    array = numpy.ascontiguousarray(array).reshape(numpy.shape(array))
    raw = numpy.dtype(_DTYPES[port.dtype])
    number = port.dtype if array.dtype == raw else next((n for n, name in _DTYPES.items() if array.dtype == name), 0)
    dims = (c_int64 * array.ndim)(*array.shape)
    keep += [array, dims]
    return _Tensor(dtype=number, rank=array.ndim, dims=dims, data=array.ctypes.data, bytes=array.nbytes)


def _array(tensor):
    shape = [tensor.dims[axis] for axis in range(tensor.rank)]
    text = ctypes.string_at(tensor.data, tensor.bytes) if tensor.bytes else b""
    return numpy.frombuffer(bytearray(text), _DTYPES[tensor.dtype]).reshape(shape)


def _result(output):
    if output.kind == TENSOR:
        return _array(output)
    return None if output.kind == ABSENT else [_array(output.items[i]) for i in range(output.count)]
