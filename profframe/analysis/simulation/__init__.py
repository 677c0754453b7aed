"""Simulation: how long a job would take if some of its activities had other durations."""
