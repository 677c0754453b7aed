"""Memory snapshots joined with a trace: op, step and category of allocations."""

from profframe.facts.snapshots.joining import join_snapshot

__all__ = ["join_snapshot"]
