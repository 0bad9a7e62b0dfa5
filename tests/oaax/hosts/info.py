"""Loads a model and prints what the runtime says of itself: info.py LIBRARY MODEL."""

import sys

from oaax2 import config, load, open_library

oaax = open_library(sys.argv[1])
assert oaax.runtime_init(config()) == 0
assert load(oaax, sys.argv[2]) == 0, oaax.runtime_get_error()
print(oaax.runtime_get_info().decode())
oaax.runtime_cleanup()
