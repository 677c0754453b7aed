"""What becomes of a store over time: what is in it, removing, packing, and whether it is sound.

`remove` and `compact` may be killed at any point, and readers may be at work: each change becomes
visible by one rename. A reader that has a file open goes on; one that comes later finds the new
state. What is replaced is deleted afterwards, by the next call if this one is killed.
"""

from __future__ import annotations

from profframe.store.maintenance.changing import compact, remove
from profframe.store.maintenance.listing import contents
from profframe.store.maintenance.verifying import verify

__all__ = ["compact", "contents", "remove", "verify"]
