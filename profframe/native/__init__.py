"""The scanner in C: from text of trace events to columns, where it is built."""
