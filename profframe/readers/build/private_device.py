"""The name of torch's PrivateUse1 backend."""

from __future__ import annotations

import sys
from typing import Final

UNNAMED: Final = "PRIVATEUSEONE"
"""What torch calls these devices until someone gives them a name."""
_OF_TORCH: Final = ("cuda", "xpu", "mtia", "hpu")
"""Devices that torch has names for, as arguments of its profiler."""


def private_device() -> str:
    """The name of such devices in this process, in capitals; torch is not imported for this.

    Examples
    --------
    >>> private_device()
    'PRIVATEUSEONE'
    """
    core = getattr(sys.modules.get("torch"), "_C", None)
    name_of = getattr(core, "_get_privateuse1_backend_name", None)
    name = name_of() if name_of is not None else None
    return name.upper() if isinstance(name, str) and name else UNNAMED


def is_private(use_device: str | None) -> bool:
    """Whether the argument of a profiler names a device that torch does not know."""
    return use_device is not None and use_device not in _OF_TORCH


def live_device_type(by_events: str | None, use_device: str | None) -> str | None:
    """Type of the devices of a live profile, from its events and its profiler's arguments.

    Examples
    --------
    >>> live_device_type("CUDA", "npu"), live_device_type(None, "cuda")
    ('NPU', None)
    """
    if use_device is not None and (by_events or is_private(use_device)):
        return use_device.upper()
    return private_device() if by_events == UNNAMED else by_events
