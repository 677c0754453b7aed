"""The rank of this process in its job."""

from __future__ import annotations

import os
from importlib import import_module


def rank_of_process() -> int:
    """From ``torch.distributed``, else from the environment (``RANK``), else 0."""
    distributed = import_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() and rank.isascii() else 0
