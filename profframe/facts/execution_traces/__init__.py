"""What an execution trace says about the slices of a trace: tensors, and who reads them."""

from __future__ import annotations

from profframe.facts.execution_traces.joining import join_nodes

__all__ = ["join_nodes"]
