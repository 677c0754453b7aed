"""Graphs of kernels: what was captured once, and which device work replays it."""
