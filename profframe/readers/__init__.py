"""Readers, the only code that knows source formats."""
