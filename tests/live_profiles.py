"""What tests of live profiles record, and how often an op of it is in a trace."""

from __future__ import annotations

from typing import Final

import profframe
from tests import needs

torch = needs.torch()

CYCLES: Final = {"wait": 0, "warmup": 1, "active": 1}


def work() -> object:
    return torch.ones(2, 2) @ torch.ones(2, 2)


def calls(trace: profframe.Trace, name: str = "aten::mm") -> int:
    return trace.events.filter(trace.events["name"] == name).height
