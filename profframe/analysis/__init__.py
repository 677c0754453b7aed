"""Differences between two sides or among many runs, and whether they exceed noise."""
