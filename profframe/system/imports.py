"""Suppression of imports that libraries do on their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


class _NoPandas:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=fullname)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas for a block, in a process of profframe's own.

    PyArrow imports pandas at the first list that it converts, to see whether that is a pandas
    series: this takes a fifth of the time to a first screen. A later ``to_pandas()`` still finds
    pandas.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def look_for_no_pandas() -> None:
    """Let PyArrow look for pandas now, and find none."""
    import pyarrow as pa

    with without_pandas():
        pa.array([0])
