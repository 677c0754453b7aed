"""Facts as torch computes them, where torch has a way of its own."""
