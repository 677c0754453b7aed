"""Two sides compared: differences, causes, memory, limits, and their pages."""
