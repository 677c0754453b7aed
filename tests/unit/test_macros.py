"""Macros of `sql/`: found, made behind what they call, and kept in a conversation."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import profframe
from profframe import schema
from profframe.query import macros
from profframe.query.header import COMMENT, sql_directory

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu_training.json.gz"
SHADOWED = """
WITH events AS (FROM events WHERE false)
SELECT count(*) AS lanes FROM lanes(events)
"""


def written() -> str:
    """All SQL, without comments."""
    paths = sorted(sql_directory().rglob("*.sql"))
    return COMMENT.sub("", "".join(path.read_text(encoding="utf-8") for path in paths))


def test_every_macro_of_the_files_is_found() -> None:
    """A macro that is read as a part of the one before it would be missing from other answers."""
    names = re.findall(r"^CREATE OR REPLACE TEMP MACRO (\w+)", written(), re.MULTILINE)
    found = macros.definitions("".join(f"{name}()" for name in names))
    assert len(names) == len(found) == len({*names}) > 20
    with duckdb.connect() as connection:
        for macro in found.values():
            connection.execute(macro)


def test_what_is_kept_is_of_all_events_alone() -> None:
    """Else a table of it would be wrong for somebody who calls it with something else."""
    sql = written()
    for name in macros.SHARED_STEPS:
        [definition] = macros.definitions(f"{name}()", macros.SHARED_STEPS).values()
        assert f" MACRO {name}(events) AS TABLE\n" in definition
        assert "getvariable" not in "".join(macros.definitions(f"{name}()").values())
    calls = re.findall(r"\b(\w+)\(([^(),]*)", sql)
    of_kept = [
        given
        for name, given in calls
        if {*macros.SHARED_STEPS} & {*macros.definitions(f"{name}()")}
    ]
    assert len(of_kept) > 20
    assert {given.strip() for given in of_kept} == {"events"}


def test_a_conversation_says_what_single_questions_say() -> None:
    trace = profframe.load(EXAMPLE)
    names = [
        "idle",
        "gaps",
        "queue_depth",
        "queue_depth.stream",
        "annotations",
        "modules",
        "pipeline_actions",
        "advice",
    ]
    with trace.session() as asked:
        for name in names:
            assert asked.answer(name).equals(trace.answer(name)), name
        assert asked.queue_depth(per="stream").equals(trace.queue_depth(per="stream"))
        for by in ("name", "short_name", "class"):
            assert asked.kernels(per=by, copies=True).equals(trace.kernels(per=by, copies=True)), by
        answers = asked._session.answers
        assert answers is not None
        assert {("step", name) for name in macros.SHARED_STEPS} <= answers._answers.keys()
        part = asked.filter(kinds="kernel")
        assert part.answer("idle").equals(trace.filter(kinds="kernel").answer("idle"))


@pytest.mark.parametrize("before", [[], ["flame"]])
def test_a_file_of_the_user_may_mean_other_events(tmp_path: Path, before: list[str]) -> None:
    """What is kept is of the views, not of what a file calls by their names."""
    mine = tmp_path / "mine.sql"
    mine.write_text(SHADOWED)
    with profframe.load(EXAMPLE).session() as asked:
        for name in before:
            asked.answer(name)
        assert asked.answer(mine)["lanes"].to_list() == [0]
        assert asked.answer("annotations").height


def test_questions_of_all_kinds_take_turns_on_one_connection() -> None:
    """An answer reads few columns of the tables, SQL all of them, and a filtered trace too."""
    trace = profframe.load(EXAMPLE)
    for one in (trace, trace.filter(kinds=["host_op", "kernel"])):
        with one.session() as asked:
            assert asked.step_times().equals(one.step_times())
            for table in ("events", "flows"):
                width = len(schema.TABLES[table].columns)
                assert asked.sql(f"SELECT * FROM {table} LIMIT 1").width == width
            assert str(asked.tree()) == str(one.tree())
            assert asked.kernels().equals(one.kernels())
            for table in ("events", "flows"):
                width = len(schema.TABLES[table].columns)
                assert asked.sql(f"SELECT * FROM {table} LIMIT 2").width == width
            with asked.session() as nested:
                assert nested.step_times() is asked.step_times()
