"""Databases of nvprof and Nsight Systems."""

from typing import Final

MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""
