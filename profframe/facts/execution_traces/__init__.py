"""What an execution trace says of the slices of a trace: their tensors, and who reads whose."""

from __future__ import annotations

from profframe.facts.execution_traces.joining import join_nodes

__all__ = ["join_nodes"]
