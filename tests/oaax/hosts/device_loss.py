"""A device that fails a launch of the second request: device_loss.py LIBRARY MODEL (scaled_sum for a GPU)."""

import sys

from oaax2 import config, floats, load, open_library, release, retrieve, tensors

oaax = open_library(sys.argv[1])
assert oaax.runtime_init(config()) == 0
assert load(oaax, sys.argv[2]) == 0, oaax.runtime_get_error()
for identity in (40, 41, 42):
    request = tensors(identity, [("x", 1, [8], floats(*range(8))), ("y", 1, [8], floats(*range(8)))])
    assert oaax.runtime_enqueue_input(0, request) == 0, oaax.runtime_get_error()
    status, model, output = retrieve(oaax, -1)
    if identity == 41:
        assert (status, model, bool(output)) == (16, 0, False), (status, oaax.runtime_get_error())
        assert b"request 41" in oaax.runtime_get_error()
    else:
        assert status == 0 and output[0].id == identity, oaax.runtime_get_error()
        release(output)
assert oaax.runtime_cleanup() == 0
