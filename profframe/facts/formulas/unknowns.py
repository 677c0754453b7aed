"""Why a formula gives no number."""

from __future__ import annotations


class Unknown(Exception):  # noqa: N818 -- no error: the formula does not apply
    """Inputs of a formula were not recorded, or do not fit it; the number becomes NULL."""


class UnknownLengths(Unknown):
    """The work depends on sequence lengths in tensors, whose values no profiler records."""
