"""Size limits of states: larger states are neither saved nor read."""

from typing import Final

#: The default limit of the total size of all files.
MAX_BYTES: Final = 2**34
#: The size of the JSON file; its content takes several times as much memory.
MAX_JSON_BYTES: Final = 2**24
#: The number of strings, brackets and commas in a JSON file: each may take a hundred bytes of memory.
MAX_JSON_PARTS: Final = 2**18
MAX_MANIFEST_BYTES: Final = 2**16
#: The nesting depth of dicts, lists and tuples.
MAX_DEPTH: Final = 64
#: The length of a key, in characters.
MAX_KEY_LENGTH: Final = 1024
#: The number of tensors and arrays.
MAX_TENSORS: Final = 100_000
#: The number of axes of a tensor or an array; NumPy 1 allows no more.
MAX_AXES: Final = 32
#: The size of an integer, in bits.
MAX_INTEGER_BITS: Final = 4096
