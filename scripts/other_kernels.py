"""How much of the devices' time no category of kernels knows, by trace and in all.

::

    python scripts/other_kernels.py [FOLDER]     # of all traces in it; two minutes for real ones

A table in Markdown: device time of each trace, the share of ``other`` in it, and the kernel that
has most of that. Traces without a device are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import profframe
from tests.places import TRACES

ENDINGS: Final = (".json", ".json.gz", ".json.zst", ".sqlite", ".nvvp", ".db")
_SUMS: Final = """
    SELECT
        sum(dur_ns)::BIGINT AS total_ns,
        coalesce(sum(dur_ns) FILTER (kernel_category = 'other'), 0)::BIGINT AS other_ns,
        (
            SELECT name FROM events WHERE kernel_category = 'other'
            GROUP BY name ORDER BY sum(dur_ns) DESC LIMIT 1
        ) AS most
    FROM events
    WHERE kind IN ('kernel', 'memcpy', 'memset')
"""


def sums(folder: Path) -> Iterator[tuple[str, int, int, str | None]]:
    """Path, device time, that of ``other``, and its largest kernel, of each trace with devices."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or not path.name.endswith(ENDINGS):
            continue
        try:
            trace = profframe.load(path)
        except profframe.NotATraceError:
            continue
        total, other, most = trace.sql(_SUMS).row(0)
        if total:
            yield path.relative_to(folder).as_posix(), total, other, most


def table(folder: Path) -> str:
    """The table, the largest share first, with a row for all."""
    rows = pl.DataFrame(sums(folder), ["trace", "total", "other", "most"], orient="row")
    if not rows.height:
        return "no trace with a device"
    rows = rows.sort(pl.col("other") / pl.col("total"), descending=True, maintain_order=True)
    total, other = sum(rows["total"]), sum(rows["other"])
    lines = ["| trace | device time | other | most of it |", "|---|---|---|---|"]
    lines.append(f"| all | {total / 1e6:,.3f} ms | {other / total:.2%} | |")
    for path, time, part, most in rows.iter_rows():
        lines.append(f"| {path} | {time / 1e6:,.3f} ms | {part / time:.2%} | {(most or '')[:60]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES))
