"""Demangle C++ names."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_MANGLED: Final = "_Z"
"""Prefix of mangled names in the Itanium C++ ABI."""
_LIBRARIES: Final = ("libstdc++.so.6", "libc++.so.1", "libc++.1.dylib")
"""The C++ runtime on Linux and on macOS."""


def demangled(names: Sequence[str | None]) -> Mapping[str, str]:
    """Demangled text of the mangled names; names that cannot be demangled are left out.

    The text is the C++ runtime's own, as PyTorch and Kineto write it.

    Examples
    --------
    >>> demangled(["_Z3addPfi", "add", "_Zzz"])
    {'_Z3addPfi': 'add(float*, int)'}
    """
    mangled = {n for n in names if n is not None and n.startswith(_MANGLED) and "\0" not in n}
    if not mangled:
        return {}
    demangle = _runtime()
    plain = {name: demangle(name) for name in mangled}
    return {name: text for name, text in plain.items() if text is not None and text != name}


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
