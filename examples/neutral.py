"""Write a profile as a trace that does not show whose machine it is from."""

from __future__ import annotations

import gzip
import re
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from torch.profiler import profile

_OWN: Final = re.compile(r'("(?:host_name|trace_id|traceName)"\s*:\s*)"[^"]*"')
"""Header values that name the machine, the run or a path."""


def export(prof: profile, path: Path) -> None:
    """Write ``prof`` gzip-compressed: without host name, with paths from their package on.

    Everything else stays as the profiler wrote it, to the byte.

    Parameters
    ----------
    prof
        A profile that has ended.
    path
        The file to write; its folder must exist.
    """
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(raw))
        text = _OWN.sub(r'\1"example"', trim_paths(raw.read_text()))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def trim_paths(text: str) -> str:
    """Leave of each path what follows the folder that its package is installed in.

    Examples
    --------
    >>> trim_paths(sysconfig.get_path("purelib") + "/torch/nn/modules/linear.py(134): forward")
    'torch/nn/modules/linear.py(134): forward'
    """
    folders = [*map(sysconfig.get_path, ("purelib", "platlib", "stdlib")), str(Path.cwd())]
    for folder in sorted(folders, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text
