"""The scanner in C stays within its buffers and reads what was written, in every form and on ARM.

``harness.c`` says what is checked; it is compiled with sanitizers, which end it at the first access
beyond a buffer. It prints a hash of all outputs, by which forms are compared.
"""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from unittest import mock

import numpy as np
import pytest

from profframe.native.scan import Scanned, Scanner
from profframe.readers.chrome.scanned import KEYS
from tests import needs
from tests.fuzz import documents
from tests.fuzz import scanned as scanned_cases
from tests.places import ROOT

SOURCES: Final = (ROOT / "tests/native/harness.c", ROOT / "profframe/native/scan.c")
FLAGS: Final = ("-std=c11", "-pthread", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SANITIZED: Final = ("-O2", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RACES: Final = ("-O1", "-g", "-fsanitize=thread")
PORTABLE: Final = "-DPROFFRAME_PORTABLE"
FEW: Final = 4000
MANY: Final = 1_000_000


def built(folder: Path, *flags: str, compiler: Sequence[str] = ()) -> Path:
    """The harness and the scanner, compiled with some flags."""
    harness = folder / "-".join(["harness", *(flag.strip("-").replace(",", "-") for flag in flags)])
    command = compiler or needs.compiler(*flags)
    subprocess.run([*command, *FLAGS, *flags, "-o", str(harness), *map(str, SOURCES)], check=True)
    return harness


def said(harness: Path, *arguments: object, under: Sequence[str] = ()) -> str:
    """What the harness prints; it fails where something is wrong, and says how to repeat it."""
    done = subprocess.run(
        [*under, str(harness), *map(str, arguments)],
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},  # that needs ptrace
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, f"{harness.name} {arguments}: {done.stderr}"
    return done.stdout


def test_no_document_is_wrong(tmp_path: Path) -> None:
    """Two threads at once write what one writes that has no vectors."""
    one = said(built(tmp_path, PORTABLE, "-O1"), 0, FEW)
    assert one.startswith(f"{FEW} documents, ")
    assert said(built(tmp_path, *SANITIZED), 0, FEW, 2) == one


@pytest.mark.long
def test_none_of_a_million_documents_is_wrong(tmp_path: Path) -> None:
    vector = said(built(tmp_path, *SANITIZED), FEW, MANY, 2)
    assert said(built(tmp_path, *SANITIZED, PORTABLE), FEW, MANY, 2) == vector


@pytest.mark.long
def test_threads_share_nothing(tmp_path: Path) -> None:
    assert said(built(tmp_path, *RACES), 0, FEW, 4) == said(built(tmp_path, "-O1"), 0, FEW)


@pytest.mark.long
def test_pieces_of_fuzzed_files_are_scanned_within_the_buffers(tmp_path: Path) -> None:
    needs.native_scanner()
    calls = tmp_path / "calls"
    with calls.open("wb") as file, written_calls(file) as handed_back:
        for seed in range(500):
            documents.case(seed)
            scanned_cases.case(seed)
    assert len(handed_back) > 1000
    vector = said(built(tmp_path, *SANITIZED), calls)
    counts = f"{len(handed_back)} documents, {sum(handed_back)} pieces handed back, "
    assert vector.startswith(counts)
    assert said(built(tmp_path, *SANITIZED, PORTABLE), calls) == vector


@contextmanager
def written_calls(file: IO[bytes]) -> Iterator[list[int]]:
    """Write the text of each call of the scanner; the number of pieces that each hands back."""
    handed_back: list[int] = []
    scan = Scanner.scan

    def scan_and_write(scanner: Scanner, text: memoryview, bounds: Sequence[int]) -> Scanned:
        file.write(numbers([len(bounds) - 1]))
        for begin, end in itertools.pairwise(bounds):
            file.write(numbers([end - begin]) + text[begin:end])
        result = scan(scanner, text, bounds)
        handed_back.append(int(np.count_nonzero(result.odd)))
        return result

    file.write(numbers([len(KEYS)]))
    for name, kind in KEYS.items():
        file.write(numbers([kind, len(name.encode())]) + name.encode())
    with mock.patch.object(Scanner, "scan", scan_and_write):
        yield handed_back


def numbers(values: Iterable[int]) -> bytes:
    """As the harness reads them."""
    return b"".join(struct.pack("<I", value) for value in values)


@pytest.mark.long
@pytest.mark.parametrize("form", [(), (PORTABLE,)], ids=["vector", "portable"])
def test_arm_writes_the_same(form: tuple[str, ...], tmp_path: Path) -> None:
    needs.module("ziglang")
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
    emulator = needs.program("qemu-aarch64", "qemu-user")
    arm = built(tmp_path, "-O2", *form, compiler=zig)
    documents_here = said(built(tmp_path, "-O1"), 0, MANY // 10)
    assert said(arm, 0, MANY // 10, under=[emulator]) == documents_here
