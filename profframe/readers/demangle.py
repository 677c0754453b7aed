"""Demangle C++ names.

A part of a mangled name can refer to earlier parts, and these again to earlier ones, so 300
characters can demangle to more than any memory holds. Names with so many references stay mangled,
and so do all names that are too long together for any real trace.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_MANGLED: Final = "_Z"
"""Prefix of mangled names in the Itanium C++ ABI."""
_LIBRARIES: Final = ("libstdc++.so.6", "libc++.so.1", "libc++.1.dylib")
"""The C++ runtime on Linux and on macOS."""
_LONGEST: Final = 4096
"""Characters of a mangled name; GNU's runtime reads no more than 1024."""
_REFERENCES: Final = re.compile(r"[ST][0-9A-Z]{0,4}_|(?P<pack>Dp)")
"""What stands for earlier text; a pack for as many as it has."""
_OF_PACK: Final = 17
"""Plain references that make as much of a name as one pack of 500 types."""
_MOST_REFERENCES: Final = 30
_MOST_TEXT: Final = 32 << 20
"""Characters of all names together."""


def demangled(names: Iterable[str | None]) -> Mapping[str, str]:
    """Demangled text of the mangled names; names that cannot be demangled are left out.

    The text is the C++ runtime's own, as PyTorch and Kineto write it.

    Examples
    --------
    >>> demangled(["_Z3addPfi", "add", "_Zzz"])
    {'_Z3addPfi': 'add(float*, int)'}
    """
    mangled = dict.fromkeys(name for name in names if name is not None and _is_safe(name))
    if not mangled:
        return {}
    demangle = _runtime()
    plain: dict[str, str] = {}
    left = _MOST_TEXT
    for name in mangled:
        text = demangle(name) if left > 0 else None
        if text is not None and text != name:
            plain[name] = text
            left -= len(text)
    return plain


def _is_safe(name: str) -> bool:
    """Whether a name is mangled, and its text cannot be very long."""
    if not name.startswith(_MANGLED) or len(name) > _LONGEST or "\0" in name:
        return False
    weights = (_OF_PACK if match["pack"] else 1 for match in _REFERENCES.finditer(name))
    return sum(weights) <= _MOST_REFERENCES


def readable(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of names, encoded as a dictionary, in which mangled ones are demangled.

    Examples
    --------
    >>> readable(pa.chunked_array([pa.array(["_Z3addPfi", "mm"]).dictionary_encode()])).to_pylist()
    ['add(float*, int)', 'mm']
    """
    mangled = [
        chunk.dictionary.filter(pc.starts_with(chunk.dictionary, _MANGLED))
        for chunk in names.chunks
    ]
    plain = demangled(text for texts in mangled for text in texts.to_pylist())
    if not plain:
        return names
    replaced = pa.chunked_array([_replaced(chunk, plain) for chunk in names.chunks], names.type)
    return replaced.unify_dictionaries()  # others take the texts of the first part for those of all


def _replaced(chunk: pa.DictionaryArray, plain: Mapping[str, str]) -> pa.DictionaryArray:
    texts = chunk.dictionary.to_pylist() if plain else []
    if plain.keys().isdisjoint(texts):
        return chunk
    dictionary = pa.array([plain.get(text, text) for text in texts], chunk.dictionary.type)
    return dictionary.take(chunk.indices).dictionary_encode()


def _runtime() -> Callable[[str], str | None]:
    """The demangler of the C++ runtime; without one no name can be demangled."""
    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library)["__cxa_demangle"]
            free = ctypes.CDLL(None)["free"]
        except (OSError, TypeError, AttributeError):  # not installed, or no such library on Windows
            continue
        function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        function.restype = ctypes.c_void_p
        free.argtypes, free.restype = (ctypes.c_void_p,), None
        return lambda name: _text(function, free, name)
    return lambda _: None


def _text(
    function: Callable[..., int | None], free: Callable[[int], None], name: str
) -> str | None:
    """Demangled name; the runtime leaves it to the caller to free its memory."""
    try:
        address = function(name.encode(), None, None, None)
        if address is None:
            return None
        try:
            return ctypes.string_at(address).decode()
        finally:
            free(address)
    except UnicodeError:  # a length in the name may cut a character
        return None
