"""Sections of a report: what is asked of a trace for each, and turned into parts of a page."""
