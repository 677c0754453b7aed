"""C++ names as people write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

_MANGLED: Final = "_Z"
"""What a mangled name begins with, by the Itanium C++ ABI."""


def demangled(names: Sequence[str | None]) -> Mapping[str, str]:
    """What the mangled ones among these names mean; names that nobody can read are left out.

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
    """The demangler of the C++ runtime; where there is none, nothing can be read."""
    try:
        import cxxfilt  # type: ignore[import-untyped]
    except OSError:  # no C++ runtime
        return lambda _: None

    def demangle(name: str) -> str | None:
        try:
            return str(cxxfilt.demangle(name))
        except (cxxfilt.Error, ValueError, UnicodeError):
            return None

    return demangle
