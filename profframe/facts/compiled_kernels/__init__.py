"""Calls of kernels that Inductor generated, linked to what it made them from."""

from __future__ import annotations

from profframe.facts.compiled_kernels.linking import compiled_kernels

__all__ = ["compiled_kernels"]
