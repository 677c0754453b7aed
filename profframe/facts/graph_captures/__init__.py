"""Graphs of kernels: what was captured once, and which work of a device replays it."""
