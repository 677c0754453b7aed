"""The name of torch's backend for devices that torch itself does not know."""

from __future__ import annotations

import sys

UNNAMED = "PRIVATEUSEONE"
"""What torch calls these devices until somebody names them."""


def private_device() -> str:
    """What this process calls such devices, in capitals; torch is not imported for this.

    Examples
    --------
    >>> private_device()
    'PRIVATEUSEONE'
    """
    core = getattr(sys.modules.get("torch"), "_C", None)
    name_of = getattr(core, "_get_privateuse1_backend_name", None)
    name = name_of() if name_of is not None else None
    return name.upper() if isinstance(name, str) and name else UNNAMED
