"""Process-wide services: memory and its limits, interrupts, tables on disk, atomic files."""
