"""A training step may change neither in its ops nor, by much, in its time."""

from __future__ import annotations

from model import inputs, train_step

from profframe.pytest_plugin import ProfileGate


def test_step(profile_gate: ProfileGate) -> None:
    """Ten steps, compared with the file that ``--profile-baseline=write`` wrote."""
    with profile_gate(fail_on="step=20%") as prof:
        for batch in inputs(10):
            train_step(batch)
            prof.step()
