"""JSON as profilers write it: streamed in pieces, and mended where it is broken."""
