"""The line about the most memory: that of `memory_peak`, of the worst device and rank."""

from __future__ import annotations

import re
from typing import Final

import polars as pl
import pytest

from profframe import load
from profframe.show import units
from profframe.show.memory_text import memory_texts
from tests.conftest import Run

CPU: Final = "examples/cpu_training.json.gz"
GIB: Final = 1 << 30
PEAK: Final = {
    "run": "a", "rank": 0, "device": 0, "allocated_bytes": 2 * GIB, "reserved_bytes": 3 * GIB,
    "op_name": "aten::mul", "module_name": "nn.Module: MLP_23", "has_totals": True,
}  # fmt: skip
LINE: Final = "at most 2.00 GiB allocated (3.00 GiB reserved) on device 0"
LITTLE: Final = PEAK | {"allocated_bytes": 10}


@pytest.mark.parametrize(
    ("peaks", "text"),
    [
        ([PEAK], f"{LINE}, at aten::mul in MLP_23"),
        ([PEAK | {"module_name": None}], f"{LINE}, at aten::mul"),
        ([PEAK | {"op_name": None, "module_name": None}], LINE),
        ([PEAK | {"module_name": "a\x1b[31m"}], rf"{LINE}, at aten::mul in a\x1b[31m"),
        (
            [LITTLE, PEAK | {"rank": 3, "device": 1}],
            f"{LINE[:-1]}1 of rank 3, at aten::mul in MLP_23",
        ),
        ([LITTLE, PEAK | {"run": "b"}], f"{LINE} in b, at aten::mul in MLP_23"),
        ([LITTLE, PEAK | {"device": None}], "at most 10 B allocated (3.00 GiB reserved) on device"),
        (
            [PEAK | {"device": None, "reserved_bytes": 0}],
            "at most 2.00 GiB allocated on the host, at aten::mul in MLP_23",
        ),
        (
            [PEAK | {"has_totals": False, "reserved_bytes": None}],
            "at most 2.00 GiB allocated since the trace began on device 0, at aten::mul in MLP_23",
        ),
    ],
)
def test_it_is_of_the_largest_peak(peaks: list[dict[str, object]], text: str) -> None:
    first = memory_texts(pl.DataFrame(peaks, schema_overrides={"device": pl.Int32}))[0]
    assert first.startswith(text) if text.endswith("device") else first == text


def test_shorter_texts_drop_the_module_and_then_the_op() -> None:
    assert memory_texts(pl.DataFrame([PEAK]))[1:] == (f"{LINE}, at aten::mul", LINE)


def test_there_is_none_without_a_level() -> None:
    assert memory_texts(pl.DataFrame()) == ()
    row = PEAK | {"allocated_bytes": None}
    assert memory_texts(pl.DataFrame([row], schema_overrides={"allocated_bytes": pl.Int64})) == ()


def test_the_first_lines_have_it_where_memory_was_recorded(run: Run) -> None:
    peak = load(CPU).memory_peak().row(0, named=True)
    amount = units.size(peak["allocated_bytes"])
    lines = run(CPU)[1].partition("\n\n")[0].splitlines()
    (line,) = (line for line in lines if line.startswith("memory "))
    assert line.split(None, 1)[1] == f"at most {amount} allocated on the host, at aten::empty"
    assert re.search(rf"^ +memory +at most {amount}", str(load(CPU).summary()), re.MULTILINE)
    assert "\nmemory " not in run("examples/job")[1]
