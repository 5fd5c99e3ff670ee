"""How large a state may be. What could not be loaded is not saved, and what is larger is not even read."""

from typing import Final

#: The size of all files together, unless the caller says otherwise.
MAX_BYTES: Final = 2**34
#: The size of what is stored as JSON; in memory it takes several times as much.
MAX_JSON_BYTES: Final = 2**24
MAX_MANIFEST_BYTES: Final = 2**16
#: How deep dicts, lists and tuples are nested.
MAX_DEPTH: Final = 64
#: How many characters a key has.
MAX_KEY_LENGTH: Final = 1024
#: How many tensors and arrays there are.
MAX_TENSORS: Final = 100_000
#: How many axes a tensor or an array has; NumPy 1 has no more.
MAX_AXES: Final = 32
#: How many bits an integer has.
MAX_INTEGER_BITS: Final = 4096
