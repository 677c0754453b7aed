"""The text of numbers is that of the file, whatever a release of DuckDB makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.readers.chrome import parsing
from profframe.readers.chrome.parsing import Parser
from profframe.readers.execution_trace.parsing import Parser as NodeParser
from profframe.readers.json.numerals import has_unlike, marked, unmarked, unmarked_rows
from profframe.readers.reading import read

UNLIKE = (
    "1.10", "-2.50", "1.00", "1e5", "1E+5", "5e-324", "1e400", "-0", "0.00001", "-0.0000001",
    "0.12345678901234567", "123456789.123456789123456789", "9" * 40, "18446744073709551616",
)  # fmt: skip
ALIKE = (
    "0", "1", "-17", "0.0", "-0.0", "100.0", "0.1", "-2.5", "123456789012345.0", "0.0001",
    "9007199254740993",
)  # fmt: skip
OTHER = ('"1.10"', '"a: 1.10, [1.10]"', '"\\"ts\\": 1e5"', "true", "null", "[]", "{}")


@pytest.fixture(params=[True, False], ids=["as the database does", "marked"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Parser:
    """One that leaves numbers to the database if it keeps them, and one that never does."""
    if not request.param:
        monkeypatch.setattr(parsing, "keeps_numerals", lambda: False)
    return Parser()


def event(**members: str) -> str:
    """A slice; values are JSON."""
    given = {"ph": '"X"', "ts": "1.10", "dur": "12.3450", "pid": "1", "tid": "2"} | members
    return "[{" + ", ".join(f'"{key}": {value}' for key, value in given.items()) + "}]"


def row_of(parser: Parser, text: str) -> dict[str, object]:
    batch = parser.array(text.encode())
    assert batch is not None
    ((rows,),) = [batch.values()]
    (row,) = rows.to_pylist()
    return dict(row)


@pytest.mark.parametrize("number", UNLIKE + ALIKE)
def test_a_number_keeps_its_text_wherever_it_is(parser: Parser, number: str) -> None:
    inner = f'{{"a":{number},"b":["x: 1.10",{number},{{"ts":{number},"c":{number}}}]}}'
    row = row_of(parser, event(args=inner, other=number, name=number, pid=number))
    assert row["args"] == f'{inner[:-1]},"other":{number}}}'
    assert (row["name"], row["pid"]) == (number, number)
    assert (row["start_ns"], row["dur_ns"]) == (1100, 12345)


def test_times_are_numbers_whose_keys_are_in_events(parser: Parser) -> None:
    text = event(args='{"ts":1.10,"dur":2.50}')
    row = row_of(parser, text.replace('"ts": 1.10', '"t\\u0073": 1.10'))
    assert (row["start_ns"], row["args"]) == (1100, '{"ts":1.10,"dur":2.50}')
    row = row_of(parser, event(**{'a\\"ts': "1.10"}))
    assert (row["start_ns"], row["args"]) == (1100, '{"a\\"ts":1.10}')


def test_numbers_stay_the_values_of_their_columns(parser: Parser) -> None:
    args = '{"External id":1e2,"stream":-0,"est. achieved occupancy %":31.250}'
    row = row_of(parser, event(cat='"kernel"', args=args))
    assert (row["external_id"], row["stream"], row["args"]) == (100, 0, args)


@pytest.mark.parametrize("number", ["01.10", "1.10.5", "1.e5", "1e", "-", "+1.10", ".50"])
def test_what_is_no_number_does_not_become_a_text(parser: Parser, number: str) -> None:
    assert parser.array(event(args=f'{{"a":{number}}}').encode()) is None


VALUES = st.recursive(
    st.sampled_from(UNLIKE + ALIKE + OTHER),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: "[" + ",".join(values) + "]"),
        st.dictionaries(st.sampled_from(["a", "ts", 'x"dur', "1.10"]), inner, max_size=3).map(
            lambda one: "{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in one.items()) + "}"
        ),
    ),
    max_leaves=8,
)


@given(VALUES, st.sampled_from(["", " ", "\n\t"]))
def test_arguments_are_those_of_the_file(value: str, space: str) -> None:
    text = event(args=f'{space}{{"a"{space}:{space}{value}{space}}}')
    with mock.patch.object(parsing, "keeps_numerals", return_value=False):
        assert row_of(Parser(), text)["args"] == f'{{"a":{value}}}'


@given(st.from_regex(r"\A-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?\Z"))
def test_the_writer_keeps_what_has_no_mark(number: str) -> None:
    texts = pa.array([f"[{number}]"], pa.string())
    if not has_unlike(texts):
        assert marked(texts) is texts
        ((written,),) = duckdb.execute("SELECT json(?)", [f"[{number}]"]).fetchall()
        assert written == f"[{number}]"


@pytest.mark.parametrize("number", UNLIKE)
def test_marks_are_taken_out_of_values_and_of_json(number: str) -> None:
    texts = marked(pa.array([number, f'{{"a": {number}}}', None, '"1.10"'], pa.string()))
    with duckdb.connect() as connection:
        connection.register("texts", pa.table({"t": texts}))
        json_text, value = unmarked("json(t)::VARCHAR"), unmarked("json(t)->>'$.a'")
        query = f"SELECT {json_text}, {value} FROM texts"
        found = connection.execute(query).fetchall()
    assert found == [(number, None), (f'{{"a":{number}}}', number), (None, None), ('"1.10"', None)]
    rows = unmarked_rows(pa.table({"t": texts, "n": [1, 2, 3, 4]}))
    assert rows["t"].to_pylist() == [number, f'{{"a": {number}}}', None, '"1.10"']


def test_texts_of_nodes_are_those_of_the_file() -> None:
    node = (
        '{"id":1234567890123456789,"name":"op","rf_id":12345678901234567,"ctrl_deps":-0,'
        '"inputs":[1.10,[1234567890123456780,0,0,1e1,4,"cpu"]],"input_types":["Double",'
        '"Tensor(float)"],"input_shapes":[[],[2,1e5]],"outputs":[-0],'
        '"attrs":[{"name":"x","value":1e-7},{"name":"y","value":[0.10,{"a":"1.10"}]}]}'
    )
    parsed = NodeParser().array(f"[{node}]".encode())
    assert parsed is not None
    ((row,), (tensor,)) = parsed.nodes.to_pylist(), parsed.tensors.to_pylist()
    assert (row["node_id"], row["parent_id"]) == (1234567890123456789, 0)
    assert row["record_function_id"] == 12345678901234567
    assert row["inputs"] == '[1.10,[1234567890123456780,0,0,1e1,4,"cpu"]]'
    assert row["outputs"] == "[-0]"
    assert row["attributes"] == '{"x":1e-7,"y":[0.10,{"a":"1.10"}]}'
    assert (tensor["tensor_id"], tensor["elements"]) == (1234567890123456780, 10)
    assert tensor["shape"] == "[2,1e5]"


def test_joined_arguments_keep_theirs(tmp_path: Path) -> None:
    events = (
        event(ph='"B"', args='{"a":1.10}')[1:-1],
        event(ph='"E"', ts="3", args='{"a":1.10,"c":[1e5,-0]}')[1:-1],
    )
    path = tmp_path / "trace.json"
    path.write_text(f"[{events[0]},{events[1]}]")
    (row,) = read(path).tables["events"].to_pylist()
    assert row["args"] == '{"a":1.10,"c":[1e5,-0]}'
