"""What facts say that they need and give is true, and so is every order that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from profframe.facts import FACTS, Tables, add_facts
from profframe.facts.pipeline import TORCH, Fact, _part, facts_for, run
from profframe.readers import read
from tests.builders import event, tables
from tests.conftest import chrome_traces

EXAMPLES = sorted(Path("examples").glob("*.json.gz"))
REAL = [path for path in chrome_traces() if path.stat().st_size < 40_000]


def columns(of: Tables) -> dict[tuple[str, str], pa.ChunkedArray]:
    """Every column of every table, text as plain text."""
    return {
        (name, column): plain(table[column])
        for name, table in of.items()
        for column in table.column_names
    }


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_coded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_coded else column


def one_after_the_other(facts: Sequence[Fact], source: Tables) -> Iterator[tuple[Fact, Tables]]:
    """Each fact, with all that was found before it: the plain way."""
    for fact in facts:
        yield fact, source
        source = fact.find(source)


def check(source: Tables, compat: str | None) -> None:
    """Each fact finds the same from what it says it needs, and gives no more than it says."""
    facts = facts_for(compat=compat)
    whole = source
    for fact, before in one_after_the_other(facts, source):
        whole = fact.find(before)
        alone = fact.find(_part(before, fact))
        for (table, name), expected in columns(whole).items():
            if table == "quality" or whole[table] is before[table]:
                continue
            known = before[table].column_names
            if name in known and expected.equals(plain(before[table][name])):
                continue
            assert {(table, name), (table, "*")} & fact.adds(), (fact.name, name)
            assert expected.equals(plain(alone[table][name])), (fact.name, name)
        new = whole["quality"].slice(before["quality"].num_rows).to_pylist()
        assert alone["quality"].to_pylist() == new, fact.name
    found = columns(run(facts, source))
    assert found.keys() == columns(whole).keys()
    assert not [key for key, values in columns(whole).items() if not values.equals(found[key])]


@pytest.mark.parametrize("compat", [None, "torch"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_facts_of_examples_need_and_give_is_declared(path: Path, compat: str | None) -> None:
    check(read(path).tables, compat)


@pytest.mark.parametrize("compat", [None, "torch"])
@pytest.mark.parametrize("number", range(len(REAL)))
def test_what_facts_of_real_traces_need_and_give_is_declared(
    number: int, compat: str | None
) -> None:
    check(read(REAL[number]).tables, compat)


def test_what_facts_of_graphs_and_overloads_need_and_give_is_declared() -> None:
    check(
        tables(
            event("## a.py ##", 0, 90),
            event("## 007 ##", 1, 80),
            event("aten::add.Tensor", 2, 30),
            event("## 8 ##", 85, 95),
        ),
        None,
    )


def test_what_arrows_need_and_give_is_declared() -> None:
    arrow = {"category": "async_npu", "flow_id": "1", "thread": 0, "time_ns": 5}
    ends = [arrow | {"phase": "s"}, arrow | {"phase": "f", "thread": 7, "time_ns": 20}]
    kernel = event("k", 20, 30, category="kernel", thread=7)
    check(tables(event("aten::mm", 0, 10), kernel, flows=ends), None)


def test_torch_replaces_facts_that_there_are() -> None:
    assert TORCH.keys() < {fact.name for fact in FACTS}
    changed = [
        fact.name
        for fact, other in zip(facts_for(), facts_for(compat="torch"), strict=True)
        if fact.find is not other.find and fact.name not in {"nodes", "devices", "work"}
    ]
    assert changed == [name for name in (fact.name for fact in FACTS) if name in TORCH]


def test_a_fact_that_fails_is_heard() -> None:
    def fail(_: Tables, /) -> Tables:
        raise ZeroDivisionError

    facts = (*FACTS[:3], Fact("wrong", fail, "parent_id"), *FACTS[3:])
    with pytest.raises(ZeroDivisionError):
        run(facts, tables(event("aten::mm", 0, 1)))


def test_rows_of_quality_come_in_the_order_of_the_facts() -> None:
    source = tables(
        event("a", 0, 10),
        event("b", 5, 15),
        event("k", 3, 9, category="kernel", correlation=7),
    )
    for _ in range(20):
        found = add_facts(source)["quality"]["check"].to_pylist()
        assert found == ["crossing_slices", "kernel_without_launch"]
