"""Why one side takes longer than the other: each nanosecond of a step, by cause."""
