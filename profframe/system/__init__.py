"""What the process shares and what it holds to: memory, interrupts, files that are there whole."""
