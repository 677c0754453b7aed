"""What a job would take after a change: what happened, replayed with other durations."""
