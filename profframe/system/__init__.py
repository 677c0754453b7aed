"""What a process shares: memory and its limits, interrupts, tables on disk, atomic files."""
