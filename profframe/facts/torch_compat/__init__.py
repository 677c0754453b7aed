"""Facts as torch computes them, where torch differs."""
