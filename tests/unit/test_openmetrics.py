"""OpenMetrics is read by prometheus_client's strict parser; names of runs are hostile."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from profframe import cli
from profframe.show.openmetrics import MetricRows, exposition, of_check, of_runs
from tests import needs
from tests.hostile import NAMES
from tests.places import ROOT

HOSTILE: Final = (
    *NAMES,
    'a"} 1\nprofframe_run_steps{run="b',
    "back\\slash",
    "\\n",
    "line\nbreak",
    "\x1b[31mred\x1b[0m",
    "\x00",
    "# EOF",
    "ü 火 \u202e",
    "",
)


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by family, as the client of Prometheus reads them."""
    parser = needs.module("prometheus_client.openmetrics.parser")
    assert text.endswith("# EOF\n")
    families: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.name not in families
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        families[family.name] = [(s.labels, s.value) for s in family.samples]
    return families


def row(**values: Any) -> dict[str, Any]:
    return {"run": "a", "clock": "utc", "start_ns": 1_790_000_000_000_000_000, **values}


def test_numbers_by_hand() -> None:
    rows = pl.DataFrame(
        [
            row(step_p50_ns=1_500_000_001, peak_device_bytes=2**60, busy_share=0.25, steps=3),
            row(run="b", clock="relative", steps=None, throughput_per_s=12.5),
        ],
        infer_schema_length=None,
    )

    assert parsed(of_runs(rows)) == {
        "profframe_run_start_seconds": [({"run": "a"}, 1_790_000_000.0)],
        "profframe_run_step_p50_seconds": [({"run": "a"}, 1.500000001)],
        "profframe_run_peak_device_bytes": [({"run": "a"}, float(2**60))],
        "profframe_run_busy_ratio": [({"run": "a"}, 0.25)],
        "profframe_run_steps": [({"run": "a"}, 3.0)],
        "profframe_run_throughput_per_second": [({"run": "b"}, 12.5)],
    }


def test_numbers_that_are_none() -> None:
    rows = pl.DataFrame({"run": [*"abc"], "x": [math.nan, math.inf, -math.inf]})
    (values,) = parsed(of_runs(rows)).values()

    assert math.isnan(values[0][1])
    assert [value for _, value in values[1:]] == [math.inf, -math.inf]


def test_nothing_is_an_end() -> None:
    assert of_runs(pl.DataFrame({"run": ["a"], "clock": ["utc"]})) == "# EOF\n"
    assert of_runs(pl.DataFrame(schema={"run": pl.String, "steps": pl.Int64})) == "# EOF\n"


def test_hostile_names_are_one_label_each() -> None:
    runs = list(dict.fromkeys(HOSTILE))
    rows = pl.DataFrame({"run": runs, "steps": [*range(len(runs))]})
    text = of_runs(rows)
    (samples,) = parsed(text).values()

    assert [value for _, value in samples] == [*range(len(runs))]
    labels = [label["run"] for label, _ in samples]
    assert len({*labels}) == len(runs), "two runs are one series"
    for run, label in zip(runs, labels, strict=True):
        if run.isprintable():
            assert label == run
    assert not any(ord(c) < 32 and c != "\n" for c in text)


def test_a_name_that_looks_like_an_escaped_one_is_another() -> None:
    rows = pl.DataFrame({"run": ["\x1b", "\\x1b", "\\u001b"], "steps": [1, 2, 3]})
    (samples,) = parsed(of_runs(rows)).values()

    assert len({label["run"] for label, _ in samples}) == 3


def test_a_check_says_what_got_worse() -> None:
    metrics = pl.DataFrame(
        {
            "metric": ["step_p50_ns", "peak_device_bytes", "op:aten::mm"],
            "base_value": [1e9, 100.0, 5.0],
            "other_value": [2e9, 100.0, 6.0],
            "ratio": [2.0, 1.0, 1.2],
            "p_value": [0.001, None, 0.5],
        }
    )
    slower = pl.DataFrame(
        {"what": ["op"], "name": ["aten::mm"], "base_ns": [10**9], "significant": [True]}
    )
    families = parsed(of_check(metrics, slower, ["step_p50_ns"]))

    assert families["profframe_check_worse"] == [
        ({"metric": "step_p50_ns"}, 1.0),
        ({"metric": "peak_device_bytes"}, 0.0),
        ({"metric": "op:aten::mm"}, 0.0),
    ]
    assert families["profframe_check_other_seconds"] == [({"metric": "step_p50_ns"}, 2.0)]
    assert families["profframe_check_base_bytes"] == [({"metric": "peak_device_bytes"}, 100.0)]
    assert families["profframe_check_p_value"][0] == ({"metric": "step_p50_ns"}, 0.001)
    labels = {"what": "op", "name": "aten::mm"}
    assert families["profframe_regression_base_seconds"] == [(labels, 1.0)]
    assert families["profframe_regression_significant"] == [(labels, 1.0)]


def test_two_parts_of_one_metric_are_one_family() -> None:
    rows = pl.DataFrame({"run": ["a"], "n": [1]})
    again = pl.DataFrame({"run": ["b"], "n": [2]})
    text = exposition([MetricRows("m", rows, ("run",)), MetricRows("m", again, ("run",))], "x")

    assert parsed(text) == {"m_n": [({"run": "a"}, 1.0), ({"run": "b"}, 2.0)]}


class TestCommandLine:
    def test_runs(self, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        shutil.copy(ROOT / "examples/cuda.json.gz", tmp_path / 'it"s {a}.json.gz')
        source = str(tmp_path / 'it"s {a}.json.gz')

        assert cli.run(["answer", "runs", source, "--format", "openmetrics"]) == 0
        families = parsed(capsysbinary.readouterr().out.decode())
        assert families["profframe_run_steps"] == [({"run": 'it"s {a}'}, 3.0)]
        assert "profframe_run_step_p50_seconds" in families

    def test_a_file_by_its_ending_and_some_columns(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.prom"
        source = str(ROOT / "examples/cuda.json.gz")

        assert cli.run(["answer", "runs", source, "-o", str(file), "--columns", "run,steps"]) == 0
        assert [*parsed(file.read_text())] == ["profframe_run_steps"]

    def test_a_check(self, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        for name in ("a1", "a2", "b"):
            shutil.copy(ROOT / "examples/cuda.json.gz", tmp_path / f"{name}.json.gz")

        arguments = ["--baseline", "a*", "--runs", "b", "--format", "openmetrics"]
        assert cli.run(["check", str(tmp_path), *arguments]) == 0
        families = parsed(capsysbinary.readouterr().out.decode())
        assert {label["metric"] for label, _ in families["profframe_check_ratio"]} >= {"op_self_ns"}

    @pytest.mark.parametrize(
        "arguments",
        [
            [
                "answer",
                "self_times",
                str(ROOT / "examples/cuda.json.gz"),
                "--format",
                "openmetrics",
            ],
            ["sql", str(ROOT / "examples/cuda.json.gz"), "FROM events", "--format", "openmetrics"],
        ],
    )
    def test_other_rows_have_no_such_form(self, arguments: list[str]) -> None:
        assert cli.run(arguments) == 2
