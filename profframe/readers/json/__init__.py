"""JSON as profilers write it: streamed in pieces, and repaired where it is broken."""
