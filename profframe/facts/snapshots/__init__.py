"""What a trace knows of the allocations of a memory snapshot: op, step and category of each."""

from profframe.facts.snapshots.joining import join_snapshot

__all__ = ["join_snapshot"]
