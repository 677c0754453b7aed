"""What a job would take if something were otherwise: what happened, replayed with other lengths."""
