"""Python stacks of kernels in CUDA graphs, as torch saves them; `reading` reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

WORDS: Final = "Python stacks of graph kernels, from torch's dump_kernel_py_stacks"
Frames: TypeAlias = tuple[str, ...]
"""Names of frames, the innermost first, as profilers write them: ``file(line): function``."""
_BEGINNING: Final = re.compile(rb'\A\s*\{\s*(?:"[+-]?\d{1,40}"\s*:|\}\s*\Z)')


@dataclass(frozen=True, slots=True, eq=False)
class GraphStacks:
    """The stacks of one file.

    Attributes
    ----------
    nodes : array of int64
        Numbers of graph nodes, ascending: the graph in the upper 32 bits.
    stack : array of int64
        For each the number of its stack in ``stacks``; -1 if the file has two for it.
    stacks : list of Frames
        The different stacks.
    unreadable : int
        Members that are no stack of a node: of another type, or with another name.
    """

    nodes: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]
    stacks: list[Frames]
    unreadable: int


def knows(head: bytes) -> bool:
    r"""Whether a decompressed file begins like such stacks: a number as the first member's name.

    Examples
    --------
    >>> knows(b'{"30064771072": "train.py:7:step"'), knows(b'{"traceEvents": []'), knows(b"{}\n")
    (True, False, True)
    """
    return _BEGINNING.search(head) is not None
