"""Order, number and columns of the rows of any answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.errors import AnswerError, ParameterError
from profframe.query.arrangement import AS_IT_IS, arranged, divided
from profframe.query.catalogue import find, selects
from profframe.query.header import Answer, parse
from profframe.query.run import script
from tests.builders import event, loaded
from tests.members import few

GPU = Path(__file__).parent.parent.parent / "examples" / "gpu_training.json.gz"
NAMES = [answer.name for answer in selects()]


@pytest.fixture(scope="module")
def trace() -> Trace:
    """aten::a twice for 10 us, aten::b once for 40 us, aten::c once for 20 us."""
    return loaded(
        *(event("aten::a", 0, 10), event("aten::b", 10, 50)),
        *(event("aten::c", 50, 70), event("aten::a", 70, 80)),
    )


@pytest.fixture(scope="module")
def gpu() -> Trace:
    return profframe.load(GPU)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (None, "bac"),  # as the answer has them: the largest self_ns first, then by name
        ("self_ns", "bac"),
        ("+self_ns", "acb"),  # a and c are equal, and stay as they were
        ("-self_ns", "bac"),
        ("name", "abc"),
        ("+name", "abc"),
        ("-name", "cba"),
        ("calls", "abc"),
        ("calls,-name", "acb"),
        (["+calls", "+self_ns"], "cba"),
        ("kind", "bac"),
    ],
)
def test_order(trace: Trace, sort: str | list[str] | None, names: str) -> None:
    rows = trace.self_times(sort=sort)
    assert "".join(name[-1] for name in rows["name"]) == names


def test_null_is_last_in_either_direction() -> None:
    rows = pl.DataFrame({"a": [None, 2, 1]})
    for sort, expected in (("a", [2, 1, None]), ("+a", [1, 2, None])):
        assert arranged("x", sort=sort).of_frame("x", rows)["a"].to_list() == expected


def test_number_and_columns(trace: Trace) -> None:
    rows = trace.self_times(sort="name", top=2, columns=["calls", "name"])
    assert rows.columns == ["calls", "name"]
    assert rows.rows() == [(2, "aten::a"), (1, "aten::b")]
    as_text = trace.answer("self_times", sort="name", top="2", columns="calls, name")
    assert as_text.equals(rows)
    assert trace.self_times(top=0).height == 3


def test_a_frame_of_an_analysis_is_arranged_alike(trace: Trace) -> None:
    rows = pl.DataFrame(trace.self_times())
    wanted = {"sort": "-calls,name", "top": 2, "columns": "name"}
    expected = trace.self_times(**wanted)  # type: ignore[arg-type]
    assert arranged("x", **wanted).of_frame("x", rows).equals(pl.DataFrame(expected))


@pytest.fixture(scope="module")
def asked(gpu: Trace) -> Iterator[Trace]:
    with gpu.session() as asking:
        yield asking


@pytest.mark.parametrize("name", few(NAMES, 16))
def test_every_answer(asked: Trace, name: str) -> None:
    """Its last column sorted, its first row: held against the whole answer, sorted by polars."""
    whole = pl.DataFrame(asked.answer(name))
    *_, last = (c for c in whole.columns if whole.schema[c] != pl.List(pl.Int64))
    descending = whole.schema[last] != pl.String
    expected = whole.sort(last, descending=descending, nulls_last=True, maintain_order=True)
    own = {parameter.name for parameter in find(name).parameters}
    wanted = {"sort": last, "top": 1, "columns": last}
    given = {key: value for key, value in wanted.items() if key not in own}
    rows = asked.answer(name, **given)
    assert rows.columns == [last]
    first = expected.head(1) if "top" in given else expected
    assert rows[last].to_list() == first[last].to_list()


def test_its_own_top_keeps_its_meaning(gpu: Trace) -> None:
    """Of kernels the largest, and one row for all others; of gaps so many of each rank."""
    assert gpu.kernels(top=1)["name"].to_list()[1:] == ["others"]
    largest = gpu.gaps(top=3)
    assert gpu.gaps(top=3, sort="+dur_ns")["dur_ns"].to_list() == largest["dur_ns"].to_list()[::-1]


def test_a_limit_of_rows_cuts_what_is_sorted(trace: Trace) -> None:
    """The smallest is not among the first two of the answer."""
    rows = trace.with_limits(rows=2, cut_rows=True).self_times(sort="-name")
    assert rows["name"].to_list() == ["aten::c", "aten::b"]
    assert trace.with_limits(rows=2).self_times(top=2).height == 2
    with pytest.raises(AnswerError, match="more than the limit of 2 rows"):
        trace.with_limits(rows=2).self_times(sort="name")


def test_answers_of_files_take_them_too(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text("SELECT name, start_ns FROM events ORDER BY start_ns;\n-- the end\n")
    rows = trace.answer(path, sort="name", top=3, columns="name")
    assert rows["name"].to_list() == ["aten::a", "aten::a", "aten::b"]
    with pytest.raises(ParameterError, match="no column named 'nam'; did you mean 'name'"):
        trace.answer(path, sort="nam")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sort": "self"}, r"sort: no column named 'self'; did you mean 'self_ns'\?"),
        ({"columns": ["nme"]}, r"columns: no column named 'nme'; did you mean 'name'\?"),
        ({"columns": "name,name"}, "columns: 'name' is named twice"),
        ({"sort": "name,-name"}, "sort: 'name' is named twice"),
        ({"sort": 3}, "sort: needs column names, got 3"),
        ({"columns": [3]}, r"columns: needs column names, got \[3\]"),
        ({"top": -1}, "top: needs a number of rows, got -1"),
        ({"top": "x"}, "top: needs a number of rows, got 'x'"),
        ({"top": 1.5}, "top: needs a number of rows, got 1.5"),
        ({"top": True}, "top: needs a number of rows, got True"),
    ],
)
def test_what_cannot_be(trace: Trace, given: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"answer 'self_times': {message}"):
        trace.answer("self_times", **given)


def test_a_name_in_quotes_is_a_name() -> None:
    rows = pl.DataFrame({'a"; DROP TABLE rows; --': [1, 2]})
    (name,) = rows.columns
    assert arranged("x", sort=[name]).of_frame("x", rows)[name].to_list() == [2, 1]


def test_an_answer_that_declares_one_has_its_own() -> None:
    lines = ("x: a.", "One row per a.", "needs: events", "parameter sort VARCHAR = up  a way")
    header = "".join(f"-- {line}\n" for line in (*lines, "a  BIGINT  a"))
    answer = parse(f"{header}SELECT 1::BIGINT AS a", "x")
    assert divided(answer, {"sort": "down", "top": 3}) == (arranged("x", top=3), {"sort": "down"})
    assert divided(Answer("y", "SELECT 1"), {}) == (AS_IT_IS, {})


def test_sql_for_a_bare_shell_has_them() -> None:
    text = script(find("self_times"), {"sort": "name,-calls", "top": "3", "columns": "name"})
    order = 'ORDER BY "name" ASC NULLS LAST, "calls" DESC NULLS LAST, rowid LIMIT 3;'
    assert text.endswith(f'SELECT "name"\nFROM answer {order}\n')
