"""Size limits of stores: larger stores are neither written nor read."""

from typing import Final

#: The number of column files. Values of further dtypes and shapes are stored among the other values of an episode.
MAX_COLUMNS: Final = 256
MAX_SCHEMA_BYTES: Final = 2**20
#: The length of the path of a column, in characters.
MAX_PATH_LENGTH: Final = 1024
#: The length of a line of the journal, which describes one record.
MAX_LINE_BYTES: Final = 2**24
#: The size of the journal; what is read of it takes several times as much memory.
MAX_JOURNAL_BYTES: Final = 2**31
#: The size of the JSON text among packed values, and the number of its strings, brackets and commas.
MAX_VALUES_BYTES: Final = 2**26
MAX_VALUES_PARTS: Final = 2**20
#: Sizes and numbers of rows; larger ones overflow.
MAX_SIZE: Final = 2**48
