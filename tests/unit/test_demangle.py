"""Names of kernels as the C++ runtime writes them, and what it cannot read."""

from __future__ import annotations

import pytest

from profframe.readers.sqlite import demangle
from profframe.readers.sqlite.demangle import demangled

KERNEL = "_ZN2at6native3addIfLi4EEEvPT_i"
READABLE = "void at::native::add<float, 4>(float*, int)"


def test_mangled_names_are_read() -> None:
    assert demangled([KERNEL, "add", None, KERNEL]) == {KERNEL: READABLE}


@pytest.mark.parametrize(
    "name",
    [
        "_Z",
        "_ZNotMangled",
        KERNEL[:-3],
        KERNEL + "\0",
        "_Z1é",  # a name of one byte, which is half a character
        "_Z3\ud800ab",
    ],
)
def test_what_cannot_be_read_is_left_out(name: str) -> None:
    assert demangled([name, KERNEL]) == {KERNEL: READABLE}


def test_without_a_runtime_every_name_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "_LIBRARIES", ("libnone.so.1",))
    assert demangled([KERNEL]) == {}
