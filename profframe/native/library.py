"""The compiled scanner, if there is one here."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Final

VERSION: Final = 1
"""`PROFFRAME_SCAN` in ``scan.h``: a library of another version is not used."""
SWITCH: Final = "PROFFRAME_NATIVE"
"""Environment variable; 0 means that the scanner is not used."""
FILE: Final = {"win32": "scan.dll", "darwin": "libscan.dylib"}.get(sys.platform, "libscan.so")


@cache
def library() -> ctypes.CDLL | None:
    """The scanner, or None where it is not built, does not fit, or is switched off."""
    return None if reason_without() else _library()


@cache
def reason_without() -> str | None:
    """Why the scanner is not used, in a few words; None if it is."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0"
    if not _path().exists():
        return "not built here"
    try:
        version = _library().profframe_version()
    except (OSError, AttributeError):
        return "built for another machine"
    return None if version == VERSION else "built from another version"


def _path() -> Path:
    return Path(__file__).with_name(FILE)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_path()))
    library.profframe_version.restype = ctypes.c_int64
    library.profframe_version.argtypes = []
    library.profframe_scan.restype = ctypes.c_int64
    library.profframe_scan.argtypes = [ctypes.c_void_p]
    library.profframe_words.restype = None
    library.profframe_words.argtypes = [ctypes.c_void_p] * 3
    return library
