"""What the scanner in C and the reader without it once said differently, or both said wrongly.

`tests/fuzz/three_readers.py` found these among drawn documents.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.readers import bytes as reader_bytes
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.chrome import parsing
from profframe.readers.json import stream
from profframe.readers.reading import read

Load = Callable[[str], RawTrace]

BEGINS = '{"ph":"X","ts":1,"dur":2,"name":"op","pid":1,"tid":2'


@pytest.fixture(params=["scanner", "pure"])
def load(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Read events with one of the readers, both of which are in every build that has a compiler."""
    if request.param == "pure":
        monkeypatch.setattr(parsing, "library", lambda: None)

    def load(events: str) -> RawTrace:
        path = tmp_path / "trace.json"
        path.write_text(f"[{events}]", encoding="utf-8")
        return read(path, threads=1)

    return load


def values(trace: RawTrace, table: str, column: str) -> list[Any]:
    found: list[Any] = trace.tables[table][column].to_pylist()
    return found


def issues(trace: RawTrace) -> dict[str, int]:
    rows = trace.tables["quality"].to_pylist()
    return {row["issue"]: row["events"] for row in rows}


def test_an_arrow_without_an_id_keeps_its_category_beside_one_between_nodes(load: Load) -> None:
    trace = load(
        '{"ph":"s","ts":1,"cat":"ac2g","id":1099511627776,"pid":1,"tid":1},'
        '{"ph":"s","ts":1,"cat":"fwdbwd","pid":1,"tid":1},{"ph":"f","ts":1,"cat":"ac2g","pid":1}'
    )
    assert values(trace, "flows", "category") == ["graph_dependency", "fwdbwd", "ac2g"]


@pytest.mark.parametrize("args", ["", ',"args":null', ',"args":{}'])
def test_the_name_of_a_collective_needs_no_arguments(load: Load, args: str) -> None:
    trace = load('{"ph":"X","ts":1,"dur":2,"name":"hcom_allReduce__123_0_1"' + args + "}")
    assert values(trace, "events", "collective") == ["allReduce"]
    assert values(trace, "events", "process_group") == ["123"]


@pytest.mark.parametrize("number", ["1.10", "0e0", "-1e-400", "0.12345678901234567", "7"])
def test_numbers_in_links_keep_their_text(load: Load, number: str) -> None:
    trace = load(
        '{"ph":"b","ts":1,"id2":{"local":' + number + '},"scope":' + number + "},"
        '{"ph":"b","ts":2,"id2":{"global":' + number + "}},"
        + BEGINS + ',"bind_id":' + number + ',"flow_out":true}'
    )  # fmt: skip
    bare = BEGINS.replace('"ts":1', '"ts":3')
    assert values(trace, "flows", "flow_id") == [number]
    assert values(load(bare + ',"id":' + number + "}"), "events", "dur_ns") == [2000]
    assert (
        values(trace, "events", "args")[0]
        == '{"id2":{"local":' + number + '},"scope":' + number + "}"
    )


@pytest.mark.parametrize("key", ["[0, 1]", "", "a.b", "$", "*", "'", "x]"])
@pytest.mark.parametrize("value", ["null", "1", '{"a":[]}'])
def test_a_member_of_an_event_may_have_any_name(load: Load, key: str, value: str) -> None:
    trace = load(BEGINS + f',"{key}":{value},"bind_id":5,"name2":1.10,"args":{{"a":1}}}}')
    assert values(trace, "events", "args") == [
        f'{{"a":1,"{key}":{value},"bind_id":5,"name2":1.10}}'
    ]
    assert issues(trace) == {}


def test_only_slices_have_bad_durations_whatever_is_beside_them(load: Load) -> None:
    begin = '{"ph":"B","ts":1,"dur":"x","name":"a","pid":1,"tid":2}'
    end = '{"ph":"E","ts":3,"dur":{},"name":"a","pid":1,"tid":2}'
    bare = '{"ph":"X","ts":1,"name":"b","pid":1,"tid":3}'
    assert issues(load(f"{begin},{end}")) == {}
    assert issues(load(f"{begin},{end},{bare}")) == {"missing_duration": 1}


def test_an_argument_named_like_a_phase_begins_no_event(load: Load) -> None:
    trace = load(
        BEGINS
        + ',"tid":2,"args":{"a":1,"b":2,"ph":"X"}},'
        + BEGINS
        + ',"args":{"ph":0,"a":1,"b":2}}'
    )
    assert values(trace, "events", "args") == ['{"a":1,"b":2,"ph":"X"}', '{"ph":0,"a":1,"b":2}']
    assert issues(trace) == {"doubled_member": 1}


def test_mangled_names_in_several_parts_are_those_of_their_events(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PIECE", 64)
    monkeypatch.setattr(stream, "WAVE", 128)
    monkeypatch.setattr(reader_bytes, "BLOCK", 100)
    names = ["_ZN2at6native4sortE", "b", "c", "_ZN2at6native4sortE", "d", "b"]
    pairs = (
        f'{{"ph":"B","ts":{at},"name":"{name}","pid":1,"tid":1}},'
        f'{{"ph":"E","ts":{at}.5,"name":"{name}","pid":1,"tid":1}}'
        for at, name in enumerate(names)
    )
    trace = load(",".join(pairs))
    assert values(trace, "events", "name") == [
        "at::native::sort", "b", "c", "at::native::sort", "d", "b",
    ]  # fmt: skip
    assert values(trace, "events", "dur_ns") == [500] * 6
    assert issues(trace) == {}


def test_a_number_of_an_inner_object_is_none_of_an_allocation(load: Load) -> None:
    inner = '"args":{"Addr":5,"Bytes":"x"}'
    begins = '{"ph":"i","ts":1,"name":"[memory]","pid":1,"tid":2,"args":{"Addr":null,"Bytes":'
    assert issues(load(begins + "7," + inner + "}}")) == {}
    assert issues(load(begins + '"x",' + inner + "}}")) == {"odd_value": 1}


def test_categories_of_torch_count_only_where_slices_have_them(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    arrow = '{"ph":"s","ts":1,"cat":"cpu_op","id":1,"pid":1,"tid":2}'
    slices = [BEGINS + f',"cat":"{category}"}}' for category in ("zeta", "alpha")]
    for others, detail in (([arrow], []), ([BEGINS + ',"cat":"cpu_op"}'], [": alpha, zeta"])):
        path.write_text(f"[{','.join([*slices, *others])}]", encoding="utf-8")
        quality = profframe.load(path).quality
        own = quality.filter(quality["issue"] == "unknown_category")["detail"].to_list()
        assert [text[-13:] for text in own] == detail
