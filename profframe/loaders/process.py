"""What this process is: its rank in its job, and the name of its program."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

_KERNEL: Final = "kernel"
"""In the names of programs that run notebooks: ``ipykernel_launcher``, ``colab_kernel_launcher``"""
_NOTEBOOK: Final = ".ipynb"


def rank_of_process() -> int:
    """From ``torch.distributed``, else from the environment (``RANK``), else 0."""
    distributed = import_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() and rank.isascii() else 0


def name_of_program() -> str:
    """The script, the package of ``python -m``, or the notebook; ``run`` if there is none."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.absolute().parent.name if path.stem == "__main__" else path.stem
    if _KERNEL in name and "ipykernel" in sys.modules:
        return _name_of_notebook()
    return name if name and not name.startswith("-") else "run"  # -c of python, - for its input


def _name_of_notebook() -> str:
    """As Jupyter's server or VS Code say it; ``notebook`` if neither does."""
    names = (
        os.environ.get("JPY_SESSION_NAME"),
        getattr(sys.modules["__main__"], "__vsc_ipynb_file__", None),
    )
    notebooks = (Path(name) for name in names if isinstance(name, str))
    return next((path.stem for path in notebooks if path.suffix == _NOTEBOOK), "notebook")
