"""The Parquet store: one folder per (run, rank), one file per table.

::

    <store>/run=<run>/rank=<rank>/<table>.parquet     run percent-encoded
    <store>/pack-<id>/<table>.parquet                 many (run, rank) in one
    <store>/.tmp-<id>/                                a writer at work; readers ignore it

``run`` and ``rank`` are columns of every file as well, so a reader needs nothing from the path. A
folder is written aside and published by one rename, or exchanged with the one that it replaces: a
writer killed at any point leaves the old state or the new one. If the file system cannot exchange
two folders, the old one is first renamed to ``.old-rank=<rank>`` beside it; readers use that one
while ``rank=<rank>`` is missing, and the next writer puts it back. ``manifest.json`` in each folder
has the size and checksum of its files; `profframe.store.layout` has the rules of packs.
"""

from __future__ import annotations

from profframe.store.layout import component
from profframe.store.member_files import Store, check_folder, is_store, root_at, scan
from profframe.store.visible_rows import by_trace, large_parts, row_groups
from profframe.store.writing import add, has, place_to_write, publish, put, write

__all__ = [
    "Store",
    "add",
    "by_trace",
    "check_folder",
    "component",
    "has",
    "is_store",
    "large_parts",
    "place_to_write",
    "publish",
    "put",
    "root_at",
    "row_groups",
    "scan",
    "write",
]
