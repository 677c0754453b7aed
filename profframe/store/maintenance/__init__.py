"""Maintenance of a store: list its contents, remove, pack and verify.

`remove` and `compact` may be killed at any point, and others may read: each change becomes visible
by one rename. A reader that has a file open continues; a later one finds the new state. Replaced
folders are deleted afterwards, by the next call if this one is killed.
"""

from __future__ import annotations

from profframe.store.maintenance.listing import contents
from profframe.store.maintenance.remote_stores import compact, remove
from profframe.store.maintenance.verifying import verify

__all__ = ["compact", "contents", "remove", "verify"]
