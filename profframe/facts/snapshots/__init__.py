"""What a trace says about the allocations of a memory snapshot: op, step and category."""

from profframe.facts.snapshots.joining import join_snapshot

__all__ = ["join_snapshot"]
