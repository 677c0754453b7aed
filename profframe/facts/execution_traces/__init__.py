"""Execution traces joined with a trace: tensors of slices, and data dependencies."""

from __future__ import annotations

from profframe.facts.execution_traces.joining import join_nodes

__all__ = ["join_nodes"]
