"""Run an answer, or SQL of the user's, on a connection that has a view per table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from types import MappingProxyType
from typing import Final, Protocol

import duckdb
import pyarrow as pa

from profframe.errors import ProfframeError
from profframe.query import macros, sandbox
from profframe.query.arrangement import AS_IT_IS, Arrangement, divided, quoted
from profframe.query.catalogue import columns_named, find, is_shipped, reads, resolve, words_of
from profframe.query.division import Key, with_keys
from profframe.query.header import Answer
from profframe.query.parameters import (
    reset_variables,
    set_variables,
    typed,
    values,
    with_values,
)
from profframe.query.plans import NO_TABLES, Tables, give, planning_without, rows_of, take
from profframe.query.rules import ANSWER, RAW_FINDINGS, SETTLED, SHARED_FIRST, Advice
from profframe.query.sandbox import Terms
from profframe.query.sources import Columns
from profframe.query.statement import (
    FREE,
    check_arrow_columns,
    check_columns,
    check_number_of_rows,
    check_rows,
    computed,
    most,
    no_rows,
    one_line_errors,
)

_ROWS: Final = "_rows"
_PLACE: Final = "_place"
_SLOW_OPTIMIZER: Final = "projection_pullup"
"""Its time grows with the square of the number of rules in one SELECT."""


class Select(Protocol):
    """Runs a SELECT of profframe's own over tables of a trace."""

    def __call__(
        self,
        sql: str,
        views: Mapping[str, Columns],
        given: Tables = NO_TABLES,
        *,
        without: str = "",
    ) -> pa.Table:
        """The rows.

        Parameters
        ----------
        sql
            One SELECT, without variables.
        views
            Tables of the trace that it reads, and their columns.
        given
            Other tables that it reads.
        without
            An optimizer of DuckDB that it is planned without, if any.
        """


def on(connection: duckdb.DuckDBPyConnection, *, reuse: bool = True) -> Select:
    """Runs a SELECT on a connection that has a view per table; ``reuse`` as for `macros.load`."""

    def select(
        sql: str,
        views: Mapping[str, Columns],  # noqa: ARG001 - the connection has them
        given: Tables = NO_TABLES,
        *,
        without: str = "",
    ) -> pa.Table:
        for name, rows in given.items():
            give(connection, name, rows)
        try:
            macros.load(connection, sql, reuse=reuse)
            with planning_without(connection, without):
                return rows_of(connection, sql)
        finally:
            for name, rows in given.items():
                take(connection, name, rows)

    return select


def prepare(
    connection: duckdb.DuckDBPyConnection, answer: Answer, parameters: Mapping[str, object]
) -> None:
    """Create the macros that an answer calls and set its variables to values or defaults.

    Parameters
    ----------
    connection
        Connection that the answer will run on.
    answer
        The answer.
    parameters
        Value by parameter name; text is converted to the declared type, None is the default.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> prepare(connection, find("key_averages"), {"group_by_stack_n": "5"})
    >>> connection.sql("SELECT getvariable('group_by_stack_n')").fetchall()
    [(5,)]
    """
    answer, parameters = resolve(answer, parameters)
    set_variables(connection, answer, parameters)
    macros.load(connection, answer.sql)


def run(
    connection: duckdb.DuckDBPyConnection,
    answer: Answer,
    parameters: Mapping[str, object] = MappingProxyType({}),
    terms: Terms = FREE,
) -> duckdb.DuckDBPyRelation:
    """Run an answer on a connection that has a view per table.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    answer
        The answer, from `find`.
    parameters
        Value by parameter name.
    terms
        Whether an answer of the user's may read files, and how many rows it may return.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed, so that a later answer's parameters cannot change them.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.
    UnknownNameError
        The SQL names a table or column that is not there; the message suggests the nearest.
    AnswerError
        DuckDB refused the SQL, it reads more than tables, it returns too many rows, or the result
        is not what the header declares.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> _ = connection.execute(
    ...     "CREATE TABLE events AS SELECT 'r' AS run, 0 AS rank, 'mm' AS name,"
    ...     " 'host_op' AS kind, 7::BIGINT AS self_ns, 7::BIGINT AS dur_ns"
    ... )
    >>> run(connection, find("self_times")).fetchall()
    [('r', 0, 'mm', 'host_op', 1, 7, 7, 7, 7, 7, 1.0)]
    """
    answer, parameters = resolve(answer, parameters)
    where, trusted = answer.where, is_shipped(answer)
    arrangement, _ = divided(answer, parameters)
    set_variables(connection, answer, parameters)
    if isinstance(answer, Advice):
        relation = _advice(connection, answer, parameters, terms, arrangement)
    else:
        with one_line_errors(where, terms, answer.sql):
            if not trusted:
                sandbox.check(connection, answer.sql, where, terms)
            macros.load(connection, answer.sql, reuse=trusted)
            relation = computed(connection, answer.sql, terms, arrangement, trusted=trusted)
    reset_variables(connection, (parameter.name for parameter in answer.parameters))
    check_rows(relation, where, terms)
    check_columns(answer, relation)
    return arrangement.chosen(relation)


def answered(
    select: Select,
    answer: Answer,
    parameters: Mapping[str, object] = MappingProxyType({}),
    terms: Terms = FREE,
    *,
    in_steps: bool = False,
    keys: Sequence[Key] = (),
    lacks: Callable[[Answer], bool] = lambda _: False,
) -> pa.Table:
    """The rows of an answer that came with profframe; errors are those of `run`.

    ``in_steps`` is for advice: whether each rule is asked by itself. ``keys`` of another answer
    become columns of the rows, if it sorts by what is no column of it. ``lacks`` says of which
    answers it is known that they have no rows: they are not planned.
    """
    answer, parameters = resolve(answer, parameters)
    arrangement, _ = divided(answer, parameters)
    given = values(answer, parameters)
    if isinstance(answer, Advice):
        tables = {_FINDINGS: _advised(select, answer, given, terms, in_steps=in_steps)}
        return _ranked(select, answer, _AS_THEY_ARE, tables, terms=terms, arrangement=arrangement)
    with one_line_errors(answer.where, terms):
        text = with_values(with_keys(answer, keys), answer, given)
        if not keys and lacks(answer):
            return no_rows(answer, arrangement.columns)
        rows = select(_limited(text, _limit(terms, arrangement)), reads(answer))
    return _arranged(select, answer, rows, arrangement, terms, keys=keys)


def _limit(terms: Terms, arrangement: Arrangement) -> str:
    """The LIMIT clause of a SELECT."""
    is_any = terms.most_rows is None or arrangement != AS_IT_IS
    return "" if is_any else f" LIMIT {terms.most_rows}"


def _limited(sql: str, limit: str) -> str:
    return f"FROM (\n{sql}\n){limit}" if limit else sql


def _arranged(
    select: Select,
    answer: Answer,
    rows: pa.Table,
    arrangement: Arrangement,
    terms: Terms,
    *,
    keys: Sequence[Key] = (),
) -> pa.Table:
    """Checked rows of an answer: those that are wanted."""
    check_arrow_columns(answer, rows.drop_columns([key.column for key in keys if key.sql]))
    rows = _in_order(select, answer, rows, arrangement, terms)
    check_number_of_rows(rows.num_rows, answer.where, terms)
    return rows.select(list(arrangement.columns)) if arrangement.columns else rows


def _in_order(
    select: Select, answer: Answer, rows: pa.Table, arrangement: Arrangement, terms: Terms
) -> pa.Table:
    """Rows in the order that is wanted, and as many as are."""
    if arrangement == AS_IT_IS:
        return rows
    types = {column.name: column.type for column in answer.columns}
    order = arrangement.sql(types, _PLACE, terms.most_rows)
    placed = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    return select(f"FROM {_ROWS} SELECT * EXCLUDE ({_PLACE}){order}", {}, {_ROWS: placed})


def script(answer: Answer, parameters: Mapping[str, object] = MappingProxyType({})) -> str:
    """SQL with which a bare DuckDB shell runs an answer on views of the tables.

    Parameters
    ----------
    answer
        The answer.
    parameters
        Value by parameter name.

    Returns
    -------
    str
        The macros that the answer calls, the parameters that have a value, and its SELECT.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.

    Examples
    --------
    >>> script(find("step_times")).splitlines()[0]
    'CREATE OR REPLACE TEMP MACRO host_windows(steps) AS TABLE'
    """
    answer, parameters = resolve(answer, parameters)
    arrangement, _ = divided(answer, parameters)
    types = {parameter.name: parameter.type for parameter in answer.parameters}
    variables = [
        f'SET VARIABLE "{name}" = {typed(value, types[name])};'
        for name, value in values(answer, parameters).items()
        if value is not None
    ]
    definitions = macros.definitions(answer.sql).values()
    rows = answer.sql.strip().removesuffix(";")
    if arrangement != AS_IT_IS:
        column_types = {column.name: column.type for column in answer.columns}
        order = arrangement.sql(column_types, "rowid")
        columns = ", ".join(map(quoted, arrangement.columns)) or "*"
        rows = (
            f"CREATE OR REPLACE TEMP TABLE answer AS\n{rows};\nSELECT {columns}\nFROM answer{order}"
        )
    return "\n".join([*definitions, *variables, rows + ";\n"])


def query(
    connection: duckdb.DuckDBPyConnection, sql: str, where: str = "query", terms: Terms = FREE
) -> duckdb.DuckDBPyRelation:
    """Run one SELECT of the user's; an error is one line.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    sql
        One statement that returns rows.
    where
        What the error message calls the SQL.
    terms
        Whether the SQL may read files, and how many rows it may return.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed.

    Raises
    ------
    UnknownNameError
        A table or column is not there; the message suggests the nearest.
    AnswerError
        The SQL is not one SELECT, it reads more than tables, it returns too many rows, or DuckDB
        refused it.

    Examples
    --------
    >>> query(duckdb.connect(), "SELECT 1 + 1").fetchall()
    [(2,)]
    """
    with one_line_errors(where, terms, sql):
        sandbox.check(connection, sql, where, terms)
        macros.load(connection, sql)
        rows = most(connection, sql, terms).materialize()
    check_rows(rows, where, terms)
    return rows


def select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Run a SELECT that came with profframe; errors are those of `query`.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    sql
        One SELECT.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed.

    Examples
    --------
    >>> select(duckdb.connect(), "SELECT 1 + 1").fetchall()
    [(2,)]
    """
    with one_line_errors("query"):
        return connection.sql(sql).materialize()


def selected(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The rows of `select` as Arrow, which are not kept on the way.

    Examples
    --------
    >>> selected(duckdb.connect(), "SELECT 1 + 1 AS two").to_pylist()
    [{'two': 2}]
    """
    with one_line_errors("query"):
        return connection.sql(sql).to_arrow_table()


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """Findings of the advice rules, before replays compute their gains.

    Attributes
    ----------
    rows
        Columns of rules, a ``finding_number``, its ``own_gain_ns``, and what to replay:
        ``replay replayed_with changed_events changed_factors``.
    windows
        The time that is looked at: ``run rank window_ns``, and ``marks``, its profiler steps; one
        row per trace, none where nothing is to be replayed.
    """

    rows: pa.Table
    windows: pa.Table


def findings(
    select: Select,
    answer: Advice,
    parameters: Mapping[str, object] = MappingProxyType({}),
    terms: Terms = FREE,
    *,
    in_steps: bool = False,
) -> RuleFindings:
    """Run the rules of advice; `ranked` makes the answer of what they find.

    ``in_steps`` is whether each rule is asked by itself.

    Raises
    ------
    ParameterError, UnknownNameError, AnswerError
        As of `run`.
    """
    given = values(answer, parameters)
    rows = _advised(select, answer, given, terms, in_steps=in_steps)
    rows = rows.append_column("finding_number", pa.array(range(rows.num_rows), pa.int64()))
    replays = rows.num_rows - rows["replay"].null_count
    windows = _WINDOWS if replays else f"{_WINDOWS} LIMIT 0"
    with one_line_errors("query"):
        return RuleFindings(rows, select(windows, reads(answer)))


def ranked(
    select: Select,
    answer: Advice,
    rows: pa.Table,
    gains: pa.Table,
    terms: Terms = FREE,
    *,
    arrangement: Arrangement = AS_IT_IS,
) -> pa.Table:
    """Rank findings by what replays say that they are worth, and else by what their rules say.

    Parameters
    ----------
    select
        Runs a SELECT.
    answer
        The answer that found them.
    rows
        Those of `RuleFindings`.
    gains
        Of some of them ``finding_number gain_ns window_ns replay_error``, or ``not_replayed``, the
        reason; of late ranks also ``least_gain_ns most_gain_ns``, and ``named_gain_ns`` of what the
        finding names alone.
    terms
        How many rows it may return.
    arrangement
        Which of them are wanted, and in which order.

    Raises
    ------
    AnswerError
        A rule gives a severity that there is none of, or there are too many rows.
    """
    given = {_FINDINGS: rows, "_gains": gains}
    return _ranked(select, answer, _GAINED, given, terms=terms, arrangement=arrangement)


def _ranked(
    select: Select,
    answer: Advice,
    findings: str,
    tables: Tables,
    *,
    terms: Terms,
    arrangement: Arrangement,
) -> pa.Table:
    sql = f"WITH findings AS (\n{findings}\n)\n{answer.ranking}"
    with one_line_errors(answer.where, terms):
        rows = select(_limited(sql, _limit(terms, arrangement)), {}, tables)
    return _arranged(select, answer, rows, arrangement, terms)


_FINDINGS: Final = "_findings"
_AS_THEY_ARE: Final = f"FROM {_FINDINGS}"
_WINDOWS: Final = """
    SELECT windows.run, windows.rank, windows.window_ns, marks.marks
    FROM shared_windows(events, profiler_steps) AS windows
    LEFT JOIN (
        SELECT run, rank, list(event_id ORDER BY event_id) AS marks
        FROM whole_steps(profiler_steps)
        WHERE step_ns > 0
        GROUP BY run, rank
    ) AS marks ON windows.run = marks.run AND windows.rank = marks.rank
"""
_PARTIAL: Final = "_partial_steps"
_PARTIAL_STEPS: Final = """
    SELECT all_steps.run, all_steps.rank, step
    FROM profiler_steps AS all_steps
    JOIN shared_windows AS windows
        ON all_steps.run = windows.run AND all_steps.rank = windows.rank AND windows.steps > 0
    EXCEPT
    SELECT run, rank, step FROM whole_steps(profiler_steps) WHERE step_ns > 0
"""
_EXAMINED: Final = """
FROM (
    WITH events AS NOT MATERIALIZED (
        SELECT whole.* REPLACE (CASE WHEN partial.step IS NULL THEN whole.step END AS step)
        FROM events AS whole
        LEFT JOIN _partial_steps AS partial
            ON whole.run = partial.run AND whole.rank = partial.rank AND whole.step = partial.step
    )
    FROM ({})
)
"""
"""SQL with events of which none is in a step that is not examined; a plan puts a WITH before it."""
_GAINED: Final = """
    SELECT _findings.* REPLACE (
            coalesce(within_ns, estimated_gain_ns) AS estimated_gain_ns,
            CASE WHEN within_ns IS NULL THEN severity ELSE severity_of(within_ns, window_ns) END
                AS severity,
            CASE
                WHEN gain_ns IS NOT NULL
                    THEN 'replayed with ' || replayed_with
                    || CASE
                        WHEN least_gain_ns < most_gain_ns
                            THEN ': ' || duration_text(least_gain_ns) || ' to '
                            || duration_text(most_gain_ns)
                        ELSE ''
                    END
                    || coalesce('; what is named alone gains ' || duration_text(named_gain_ns), '')
                    || coalesce('; its own time is ' || time_text(own_gain_ns, steps), '')
                    || CASE
                        WHEN abs(replay_error) >= 0.001
                            THEN '; unchanged, the replay is ' || percent_text(abs(replay_error))
                            || ' off'
                        ELSE ''
                    END
                ELSE gain_basis || coalesce(' (not replayed: ' || not_replayed || ')', '')
            END AS gain_basis
        )
    FROM _findings
    LEFT JOIN _gains USING (finding_number)
    -- Without steps, a replay also gains what the host does before the first device work.
    LEFT JOIN LATERAL (
        SELECT gain_within(
            CASE
                WHEN claims = 'idle' AND steps = 0 THEN least(gain_ns, own_gain_ns)
                ELSE gain_ns
            END,
            window_ns
        )::BIGINT AS within_ns
    ) ON true
"""


def _advised(
    select: Select,
    answer: Advice,
    given: Mapping[str, object],
    terms: Terms,
    *,
    in_steps: bool,
) -> pa.Table:
    """Findings of the rules that may apply to the trace, once no two claim the same time.

    In steps, each shared step and each rule is planned by itself, so that its plan serves traces
    that other rules apply to; else one SELECT computes all of them, and spills what is too large.
    """
    views, where = reads(answer), answer.where
    shared: dict[str, pa.Table] = {}

    def rows(sql: str, table: str = where, without: str = "") -> pa.Table:
        with one_line_errors(table, terms, sql):
            sql = _EXAMINED.format(sql) if _PARTIAL in shared else sql
            sql = with_values(sql, answer, given)
            named = {name: shared[name] for name in words_of(sql) & shared.keys()}
            return select(sql, columns_named(sql) if in_steps else views, named, without=without)

    for name, inputs in SHARED_FIRST.items():
        shared[name] = rows(f"FROM {name}({inputs})")
    if any(shared["shared_windows"]["steps"].to_pylist()):
        partial_steps = rows(_PARTIAL_STEPS)
        if partial_steps.num_rows:
            shared[_PARTIAL] = partial_steps
    applies = [column[0].as_py() for column in rows(answer.conditions).columns]
    applying = answer.only(compress(answer.rules, applies))
    if in_steps and applying.rules:
        for name, inputs in applying.steps:
            if name not in shared:
                shared[name] = rows(f"FROM {name}({inputs})")
        alone = {str(rule.path): applying.only([rule]) for rule in applying.rules}
        shared[RAW_FINDINGS] = pa.concat_tables(
            rows(rule.collecting(shared), path) for path, rule in alone.items()
        )
    else:
        shared[RAW_FINDINGS] = rows(applying.collecting(shared), without=_SLOW_OPTIMIZER)
    return rows(SETTLED)


def user_findings(
    connection: duckdb.DuckDBPyConnection,
    answer: Advice,
    parameters: Mapping[str, object],
    terms: Terms,
    *,
    in_steps: bool = False,
) -> RuleFindings:
    """`findings` with rules of the user's, which are checked first."""
    _check_rules(connection, answer, terms)
    set_variables(connection, answer, parameters)
    with _naming_rules(connection, answer, terms):
        select = on(connection, reuse=False)
        result = findings(select, answer, parameters, terms, in_steps=in_steps)
    reset_variables(connection, (parameter.name for parameter in answer.parameters))
    return result


def _advice(
    connection: duckdb.DuckDBPyConnection,
    answer: Advice,
    parameters: Mapping[str, object],
    terms: Terms,
    arrangement: Arrangement,
) -> duckdb.DuckDBPyRelation:
    trusted = is_shipped(answer)
    if not trusted:
        _check_rules(connection, answer, terms)
    select = on(connection, reuse=trusted)
    with _naming_rules(connection, answer, terms):
        given = values(answer, parameters)
        tables = {_FINDINGS: _advised(select, answer, given, terms, in_steps=False)}
        rows = _ranked(select, answer, _AS_THEY_ARE, tables, terms=terms, arrangement=arrangement)
        return connection.from_arrow(rows)


@contextmanager
def _naming_rules(
    connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms
) -> Iterator[None]:
    """Let an error name the rule that fails by itself, if there is one."""
    try:
        yield
    except ProfframeError:
        _raise_error_of_rule(connection, answer, replace(terms, rows=None))
        raise


def _check_rules(connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms) -> None:
    """Check rules of the user's: what is a SELECT by itself stays one within parentheses."""
    shipped = find(ANSWER)
    trusted = shipped.rules if isinstance(shipped, Advice) else ()
    for rule in answer.rules:
        if rule not in trusted:
            for sql in (rule.body, f"SELECT {rule.condition}"):
                with one_line_errors(str(rule.path)):
                    sandbox.check(connection, sql, str(rule.path), terms)


def _raise_error_of_rule(
    connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms
) -> None:
    """Raise the error of the first rule that fails by itself."""
    macros.load(connection, f"{answer.conditions} {answer.sql}")
    for rule in answer.rules:
        name = str(rule.path)
        try:
            query(connection, answer.only([rule]).conditions, name, terms)
            query(connection, answer.only([rule]).sql, name, terms)
        except ProfframeError as error:
            message = str(error)
            raise type(error)(
                message if message.startswith(name) else f"{name}: {message}"
            ) from error
