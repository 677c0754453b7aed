"""Where releases of torch differ, ``compat="torch"`` is as the one that is installed."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

import profframe
from profframe.facts.torch_compat import releases
from profframe.query.catalogue import find
from profframe.query.run import script
from tests.members import few

PLACES = (
    "profframe.query.parameters.installed",
    "profframe.facts.torch_compat.releases.installed",
    "profframe.analysis.torch_table.table_rows.installed",
)


def install(monkeypatch: pytest.MonkeyPatch, *release: int) -> None:
    for place in PLACES:
        monkeypatch.setattr(place, lambda: release)


def written(folder: Path) -> Path:
    """A Python function with an op, its kernel, and a call whose number is that of the op."""

    def slice_(category: str, name: str, ts: int, dur: int, **args: object) -> object:
        place = {"pid": 0, "tid": 7} if category == "kernel" else {"pid": 1, "tid": 1}
        named = {key.replace("_", " "): value for key, value in args.items()}
        return (
            place
            | {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur}
            | ({"args": named})
        )

    events = [
        slice_("python_function", "train.py(7): step", 0, 100, Python_id=1),
        slice_("python_function", "Python GC", 95, 2),
        slice_("cpu_op", "aten::mm", 10, 40, External_id=7),
        slice_("cuda_runtime", "cudaLaunchKernel", 20, 10, correlation=99, External_id=7),
        slice_("cuda_runtime", "cudaDeviceSynchronize", 60, 30, correlation=7),
        slice_("kernel", "sgemm", 30, 40, correlation=99, External_id=7),
    ]
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.mark.parametrize(
    ("release", "is_there"),
    few([((2, 13), True), ((2, 14), False), ((2, 15), False)], 2, arguments=2),
)
def test_python_functions(
    release: tuple[int, int], is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = profframe.load(written(tmp_path))
    frame = "train.py(7): step"
    install(monkeypatch, *release)
    for rows in (
        trace.key_averages(compat="torch"),
        trace.answer("key_averages", compat="torch"),
        trace.answer("key_averages", compat="torch", include_python_functions=None),
    ):
        assert (frame in set(rows["name"])) is is_there
        assert "Python GC" in set(rows["name"])
    assert (frame in trace.table(compat="torch")) is is_there
    assert frame in trace.table()
    for compat in (None, "torch"):
        for include in (True, False):
            rows = trace.key_averages(include_python_functions=include, compat=compat)
            assert (frame in set(rows["name"])) is include
            text = trace.table(include_python_functions=include, compat=compat)
            assert (frame in text) is include
    assert frame in set(trace.key_averages()["name"])
    variable = f"SET VARIABLE \"include_python_functions\" = CAST('{is_there}' AS BOOLEAN);"
    assert variable in script(find("key_averages"), {"compat": "torch"})


def test_a_default_of_torch_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, 2, 15)
    with profframe.load(written(tmp_path)).session() as trace:
        trace.key_averages(compat="torch")
        assert "train.py(7): step" in set(trace.key_averages()["name"])


@pytest.mark.parametrize(("release", "sync_ns"), [((2, 14), 40_000), ((2, 15), 0)])
def test_a_call_without_an_op(
    release: tuple[int, int], sync_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, *release)
    path, cache = written(tmp_path), tmp_path / "cache"
    for _ in range(2):
        times = profframe.load(path, compat="torch", cache=cache).events["device_ns"].to_list()
        assert times == [40_000 + sync_ns, 0, 40_000, 0, sync_ns, 40_000]
    assert profframe.load(path).events["device_ns"].to_list()[4] == 0


def test_another_release_is_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = written(tmp_path), tmp_path / "cache"
    times = []
    for release in ((2, 14), (2, 15), (2, 14)):
        install(monkeypatch, *release)
        times.append(profframe.load(path, compat="torch", cache=cache).events["device_ns"][4])
    assert times == [40_000, 0, 40_000]


def test_without_torch_it_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "sys", type("none", (), {"modules": {}}))

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    releases._of_package.cache_clear()
    assert releases.installed() == releases.NEWEST
    releases._of_package.cache_clear()


def test_a_flag_is_a_flag(tmp_path: Path) -> None:
    trace = profframe.load(written(tmp_path))
    with pytest.raises(profframe.ParameterError, match="include_python_functions"):
        trace.table(include_python_functions="yes")  # type: ignore[arg-type]
    with pytest.raises(profframe.ParameterError, match="include_python_functions"):
        trace.key_averages(include_python_functions="torch")  # type: ignore[arg-type]
