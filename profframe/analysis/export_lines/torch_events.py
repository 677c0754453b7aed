"""The slices that torch's ``events()`` has, in its order."""

from __future__ import annotations

from typing import Final

from profframe.facts.torch_compat.torch_names import DROPPED_NAMES

LISTED: Final = f"""
    CREATE TEMP VIEW listed AS
    SELECT *, start_ns + dur_ns AS end_ns
    FROM events
    WHERE kind != 'profiler' AND merged_into IS NULL AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
          AND coalesce(name NOT IN {DROPPED_NAMES!r}, true);"""
ORDER: Final = "run, rank, start_ns, end_ns DESC, preorder, event_id"
"""By start, the outer slice first."""
