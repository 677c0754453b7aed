"""Limits of decoding a pickle, whoever wrote it.

A byte of a pickle can ask for much: an empty set takes 200 bytes of memory, and a value is taken
from the memo any number of times. So the memory of decoded values is estimated as it grows, and has
a limit, however much the file unpacks to. Records do not count: they become columns, whose size is
in proportion to their bytes.
"""

from __future__ import annotations

from typing import Final

DEEPEST: Final = 100
"""Containers in each other."""

LONGEST_NUMBER: Final = 256
"""Bytes of a number."""

LONGEST_TEXT: Final = 16 << 20
"""Bytes of a text, bytes, or a line: what is decoded of it takes up to five times as much."""

UNFOLDED: Final = 256
"""Values that one byte may expand to, as through a list of frames that many events share."""
ALWAYS_UNFOLDED: Final = 100_000

MOST_BYTES: Final = 256 << 20
"""Memory of all that is held while decoding: with the libraries, what waits on the stack, and what
becomes of it, it is far below 1 GB, and is decoded in seconds. A snapshot of 1 GB holds 80 MB."""
VALUE: Final = 56
"""Bytes of a value in a container: its place there, and a small object."""
KEY: Final = 8
"""Bytes of a key, beside its value: dicts have few, and share them."""
CONTAINER: Final = 320
"""Bytes of a container without values, with what is noted about it."""
PLACE: Final = 110
"""Bytes of a place in the memo."""
MOST_STACK: Final = 1 << 19
"""Values that no container has taken yet. Python writes 1,000 at once, C++ a whole list; those of a
list of records are taken as they come."""
MOST_PLACES: Final = 1 << 27
"""Places in the memo; a file has no more of them than bytes, either."""

SPARSEST_FRAMES: Final = 1 << 10
"""Bytes of the file for each opcode that begins a frame: writers have at least 64 KB."""
ALWAYS_FRAMES: Final = 1 << 12

MOST_KEYS: Final = 1 << 10
"""Keys of a record: torch has 15 at most."""
MOST_ROWS: Final = 1 << 20
"""Rows that are not records, such as segments: each is a dict of its own, of some 600 bytes."""
MOST_ENTRIES: Final = 1 << 18
"""Entries of a dump: a ring of 2,000 by default."""

MOST_UNFOLDED: Final = 32 << 20
"""Bytes of all text that values other than text become, as in metadata: as around the events of a
trace. A value that is shared counts wherever it is."""
