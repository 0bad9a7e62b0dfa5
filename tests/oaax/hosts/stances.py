"""Our answers where OAAX leaves room, as docs/oaax.md gives them, each shown on the library.

usage: stances.py LIBRARY FOLDER (with double, pick, scaled_sum, strings and wide.oaax)
"""

import ctypes
import json
import pathlib
import sys

from oaax2 import config, floats, load, open_library, release, retrieve, tensors

library_path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
oaax = open_library(library_path)


def start(*models, **entries):
    assert oaax.runtime_init(config(**entries)) == 0, oaax.runtime_get_error()
    return load(oaax, *(folder / f"{model}.oaax" for model in models))


def refused(wanted, request):
    status = oaax.runtime_enqueue_input(0, request)
    assert status == wanted, (status, wanted, oaax.runtime_get_error())
    release(request)


def vector(name, count, kind=1, shape=None):
    return (name, kind, [count] if shape is None else shape, floats(*range(count)))


# G1: a failed request is reported with its model and id.
assert start("pick") == 0
index = (ctypes.c_longlong * 2)(0, 99)
assert oaax.runtime_enqueue_input(0, tensors(31, [vector("x", 3), ("index", 7, [2], index)])) == 0
status, model, output = retrieve(oaax, -1)
assert (status, model, bool(output)) == (13, 0, False) and b"request 31" in oaax.runtime_get_error()
assert json.loads(oaax.runtime_get_info())["failures"][0]["id"] == 31
oaax.runtime_cleanup()

# G2 and G7: sizes of more than 32 bits and strings are refused at load.
assert start("wide") == 14 and b"2147483648" in oaax.runtime_get_error()
assert load(oaax, folder / "strings.oaax") == 14
oaax.runtime_cleanup()

# G3: bytes, shape, type, names.
assert start("scaled_sum") == 0
refused(9, tensors(1, [vector("x", 4), vector("y", 4, shape=[3])]))
refused(10, tensors(1, [vector("x", 4), vector("y", 4, shape=[2, 2])]))
refused(11, tensors(1, [vector("x", 4), vector("y", 4, kind=6)]))
refused(9, tensors(1, [vector("x", 4), vector("z", 4)]))
refused(9, tensors(1, [vector("x", 4), vector("x", 4)]))
# G11: an open size is -1, and a request's is checked against its range.
assert json.loads(oaax.runtime_get_info())["models"][0]["inputs"][0]["shape"] == [-1]
refused(10, tensors(1, [vector("x", 0), vector("y", 0)]))
oaax.runtime_cleanup()

# G4: by name whatever the order, by order without names.
assert start("pick") == 0
index = (ctypes.c_longlong * 2)(2, 0)
for parts in ([("index", 7, [2], index), vector("x", 3)], [vector("", 3), ("", 7, [2], index)]):
    assert oaax.runtime_enqueue_input(0, tensors(1, parts)) == 0, oaax.runtime_get_error()
    status, _, output = retrieve(oaax, -1)
    assert status == 0 and ctypes.cast(output[0].tensors[0].data, ctypes.POINTER(ctypes.c_float))[:2] == [2, 0]
    release(output)
refused(9, tensors(1, [vector("x", 3), ("", 7, [2], index)]))
oaax.runtime_cleanup()

# G5: what a full queue gives, and that it is full only then.
for key, wanted in (("error", 1), ("timeout", 15)):
    assert start("double", oaaxc__queue_depth="1", oaaxc__queue_full=key) == 0
    sent = 0
    while True:
        request = tensors(sent, [vector("x", 4, shape=[1, 4])])
        status = oaax.runtime_enqueue_input(0, request)
        if status != 0:
            break
        sent += 1
        assert sent < 1000000
    assert status == wanted and b"full" in oaax.runtime_get_error()
    release(request)
    oaax.runtime_cleanup()

# G6: a text stays where it is while others come.
oaax.runtime_get_error.restype = ctypes.c_void_p
assert start("missing") == 7
address = oaax.runtime_get_error()
text = ctypes.string_at(address)
for number in range(1000):
    assert load(oaax, folder / f"missing-{number}") == 7
assert ctypes.string_at(address) == text and b"missing.oaax" in text
oaax.runtime_get_error.restype = ctypes.c_char_p
oaax.runtime_cleanup()

# G9: a changed byte is an invalid model.
changed = bytearray((folder / "double.oaax").read_bytes())
place = -1
while (place := changed.find(b"\x7fELF", place + 1)) >= 0:  # code of every level; one of them is used
    changed[place + 600] ^= 1
(folder / "changed.oaax").write_bytes(changed)
assert start("changed") == 6, oaax.runtime_get_error()
oaax.runtime_cleanup()

# G10: where no variant fits, the list of reasons.
assert start("double", oaaxc__variant="elsewhere") == 16 and b"elsewhere" in oaax.runtime_get_error()
oaax.runtime_cleanup()
