"""Traces as files that other tools open."""
