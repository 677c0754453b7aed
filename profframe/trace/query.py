"""Questions about a trace: an answer by name or from a file, SQL, and special answers.

`profframe.trace.generated_questions` has a function for each other answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Final

import polars as pl

from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.device_catalogue import Devices
from profframe.query import analyses, reasons, renamed
from profframe.query.analyses import Analysis
from profframe.query.catalogue import advice as with_rules
from profframe.query.catalogue import catalogue, is_shipped, resolve
from profframe.query.division import unit_of
from profframe.query.frames import plain
from profframe.query.header import Answer
from profframe.query.rules import Advice
from profframe.query.sandbox import Paths
from profframe.query.selection import Text, check_compat
from profframe.query.session import Session
from profframe.query.sources import InMemory
from profframe.show.empty_frames import why_empty
from profframe.show.frame import Frame
from profframe.trace import gains as gained
from profframe.trace.base_trace import BaseTrace
from profframe.trace.jobs import dependencies, dependency_table
from profframe.trace.parts import CallOfParts, Division, Each, answer_of_parts, gathered
from profframe.trace.trace_tables import (
    as_frame,
    only_answers,
    with_devices,
    with_limits,
    with_tables,
)
from profframe.workers.crew import On

_DEPENDENCIES: Final = re.compile(rf"\b{schema.DEPENDENCIES.name}\b", re.IGNORECASE)


def answer(
    self: BaseTrace,
    answer: str | PathLike[str] | Answer,
    /,
    *,
    each: object = None,
    on: On = None,
    **parameters: object,
) -> pl.DataFrame:
    """Run an answer of the catalogue, or your own SQL file.

    Parameters
    ----------
    answer
        Name of an answer as listed by `profframe.answers`, path of an ``.sql`` file, or the result
        of `profframe.query.catalogue.find` for these.
    each
        ``"rank"`` or ``"run"``: ask each of them by itself, which takes memory for one of them
        alone. The rows and their order are the same. The header of an answer says what it divides
        by. Limits of memory and time hold for each part.
    on
        Where parts are asked: an executor of `concurrent.futures`, a Dask client, or a number of
        processes of this machine. Its workers must see a store under the same path, and open only
        the files of their part. None for this process, one part after the other.
    **parameters
        Values for the parameters that the answer declares. Every answer takes three more, unless
        it has its own of that name. ``sort``: columns to sort by, such as ``"dur_ns"`` or
        ``["rank", "-dur_ns"]``; the largest number comes first, text goes from A to Z, ``+`` before
        a name puts the smallest first, ``-`` the largest. ``top``: at most this many rows.
        ``columns``: only these, in this order. Rows that are equal keep the order of the answer.

    Returns
    -------
    polars.DataFrame
        The columns that the answer's header declares.

    Raises
    ------
    UnknownNameError
        There is no such answer; the message suggests the nearest.
    ParameterError
        The answer has no such parameter or column, or the value has the wrong type.
    AnswerError
        The SQL cannot be run.
    PartsError
        Some parts failed. The error names them, and has the rows of the others.

    Examples
    --------
    >>> from profframe import load
    >>> trace = load("examples/cpu_training.json.gz")
    >>> trace.answer("overview", each="rank").equals(trace.overview())
    True
    >>> trace.answer("self_times", sort="calls", top=2, columns=["name", "calls"]).rows()
    [('aten::copy_', 459), ('aten::empty_strided', 405)]
    """
    question, parameters = resolve(answer, parameters)
    session = self._session
    docs = {column.name: column.doc for column in question.columns}
    if each is not None or on is not None:
        of_parts = answer_of_parts(question, parameters, each)
        division = Division(self, of_parts, of_parts.unit, on)
        rows = gathered(division, question.where, session.terms)
        if rows is not None:
            return as_frame(
                self, rows, docs, lambda session: reasons.of_answer(session, question, parameters)
            )
    values = {parameter.name: parameter.default for parameter in question.parameters} | parameters
    key = tuple((name, str(value)) for name, value in sorted(values.items()))
    return session.once(
        (question.sql, key, session.terms.rows, session.terms.cut_rows),
        lambda: as_frame(
            self,
            _rows(self, question, parameters),
            docs,
            lambda session: (
                only_answers(session) or reasons.of_answer(session, question, parameters)
            ),
        ),
    )


def _rows(self: BaseTrace, question: Answer, parameters: Mapping[str, object]) -> pl.DataFrame:
    session = self._session
    kept = session.source.answer_cache
    if kept is None or not is_shipped(question):
        return _computed(self, question, parameters)
    terms = session.terms
    limits = terms.rows, terms.cut_rows, terms.timeout_s is None
    asked_for = question.name, sorted((name, str(value)) for name, value in parameters.items())
    return kept.once(
        (asked_for, limits, session.selection),
        lambda: _computed(self, question, parameters),
    )


def _computed(self: BaseTrace, question: Answer, parameters: Mapping[str, object]) -> pl.DataFrame:
    if isinstance(question, Advice):
        return gained.advice(self, question, parameters)
    return self._session.answer(question, parameters)


def renamed_method(self: BaseTrace, name: str) -> Callable[..., pl.DataFrame]:
    """The method of an answer that has another name now."""
    new, chosen = renamed.ANSWERS[name]
    select, _ = resolve(new, chosen)
    names = [parameter.name for parameter in select.parameters]

    def method(*args: object, **kwargs: object) -> pl.DataFrame:
        if len(args) > len(names):
            raise ParameterError(f"{name}: takes at most {len(names)} arguments without a name")
        return answer(self, name, **dict(zip(names, args, strict=False)), **kwargs)

    return method


def sql(
    self: BaseTrace,
    query: str,
    *,
    tables: Mapping[str, object] | None = None,
    files: Paths = (),
    memory_limit: str | None = None,
    timeout_s: float | None = None,
    rows: int | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Run one SELECT over the tables by name: ``events``, ``memory``, ``dependencies``, ...

    It can read these tables and what is given here, and nothing else on the machine.

    Parameters
    ----------
    query
        DuckDB SQL.
    tables, files
        As for `with_tables`, for this query.
    memory_limit, timeout_s, rows
        As for `with_limits`, for this query.
    each, on
        Run it over each rank or run by itself, and where, as for `answer`. What the rows mean
        together is for you to say: they are those of each part, by run and rank, with the columns
        ``run`` and ``rank`` before them if they have none.

    Returns
    -------
    polars.DataFrame
        Its rows.

    Raises
    ------
    UnknownNameError
        There is no such table or column; the message suggests the nearest.
    ParameterError
        Another argument is invalid.
    AnswerError
        It is not one SELECT, reads more than it may, exceeds a limit, or DuckDB refused it.

    Examples
    --------
    >>> from profframe import load
    >>> trace = load("examples/cpu_training.json.gz")
    >>> trace.sql("SELECT count(*) AS events FROM events", timeout_s=60, rows=1).height
    1
    """
    trace = self
    if tables is not None or files:
        trace = with_tables(trace, tables=tables, files=files)
    if (memory_limit, timeout_s, rows) != (None, None, None):
        trace = with_limits(trace, memory_limit, timeout_s=timeout_s, rows=rows)
    if each is not None or on is not None:
        return _sql_of_each(trace, query, each, on)
    return _sql(trace, query)


def check_sql(self: BaseTrace, query: str) -> None:
    """Raise the error that SQL has whatever the rows are, by planning it for none of them."""
    nothing = {name: table.arrow.empty_table() for name, table in schema.TABLES.items()}
    session = self._session.with_source(InMemory(nothing))
    _sql(type(self)(session.with_terms(replace(session.terms, rows=0, cut_rows=True))), query)


def _sql_of_each(self: BaseTrace, query: str, each: object, on: On) -> pl.DataFrame:
    unit = unit_of(each)
    check_sql(self, query)
    division = Division(self, CallOfParts("sql", {"query": query}), unit, on)
    rows = gathered(division, "query", self._session.terms)
    return _sql(self, query) if rows is None else as_frame(self, rows)


def own_rows(trace: BaseTrace, query: str) -> pl.DataFrame:
    """The rows of a SELECT of profframe's own, which names the columns that it reads."""
    session = trace._session  # noqa: SLF001 - of the trace's own package
    kept = session.source.answer_cache

    def rows() -> pl.DataFrame:
        return plain(session.select(query))

    return rows() if kept is None else kept.once((query, session.selection), rows)


def _sql(self: BaseTrace, query: str) -> pl.DataFrame:
    session = self._session
    return session.once(
        (query, session.terms.rows, session.terms.cut_rows),
        lambda: as_frame(
            self,
            _with_derived(session, query).sql(query),
            why=lambda session: only_answers(session) or _why_empty(type(self)(session), query),
        ),
    )


def _why_empty(self: BaseTrace, query: str) -> str | None:
    """Why a SELECT has no rows: of a table that is computed for it, as of one of the schema."""
    if _DEPENDENCIES.search(query):
        rows = dependencies(self)
        if not rows.height:
            return f"the table {schema.DEPENDENCIES.name} has no rows: {why_empty(rows)}"
    return reasons.of_sql(self._session, query)


def _with_derived(session: Session, query: str) -> Session:
    """Add the table `dependencies` to a session, if the SQL names it."""
    if not _DEPENDENCIES.search(query):
        return session
    rows = dependency_table(session.unlimited())
    tables = {**session.terms.tables, schema.DEPENDENCIES.name: rows}
    return session.with_terms(replace(session.terms, tables=tables))


def advice(self: BaseTrace, rules: Paths = (), **parameters: Any) -> pl.DataFrame:
    """What makes the program slow or wastes memory, the evidence, and what to do.

    Parameters
    ----------
    rules
        Files and folders of rules in addition to profframe's own, or names of those of installed
        packages; `profframe.query.rules` has their form.
    **parameters
        Thresholds of rules, such as ``data_loading_share=0.1``; `docs/rules.md` lists them. And
        ``sort``, ``top``, ``columns``, ``each`` and ``on``, as for `answer`. With ``each="run"``
        findings are replayed in every run, else in at most four runs.

    Returns
    -------
    polars.DataFrame
        One row per finding, the most severe first; ``profframe answer advice`` lists its
        columns.

    Raises
    ------
    ParameterError
        No rule has such a parameter, or the value has the wrong type.
    AnswerError
        A rule cannot be read or run; the message names its file.
    """
    return answer(self, with_rules(rules), **parameters)


def key_averages(  # noqa: PLR0917 -- torch's, in its order, and compat
    self: BaseTrace,
    group_by_input_shape: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
    include_python_functions: bool | None = None,
    compat: str | None = None,
    *,
    per: str = "name",
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Times, memory and flops by operator, grouped as torch's ``key_averages`` groups.

    Parameters
    ----------
    group_by_input_shape, group_by_stack_n, group_by_overload_name
        What else to group by: input shapes, the first n frames of the stack, overloads.
    include_python_functions
        Whether Python functions, recorded by `with_stack=True`, have rows. None means yes; with
        ``compat="torch"`` it follows the installed torch: no since 2.14, and no if none is
        installed.
    compat
        ``"torch"``: exactly torch's rows, which distinguish no kinds except user annotations.
    per
        What each row is: ``"name"``, or ``"all"``, as in `total_average`.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per key, in order of first occurrence; ``profframe answer key_averages`` lists its
        columns.

    Raises
    ------
    ParameterError
        A value is invalid.
    """
    check_compat(compat)
    return answer(
        self,
        "key_averages",
        group_by_input_shape=group_by_input_shape,
        group_by_stack_n=group_by_stack_n,
        group_by_overload_name=group_by_overload_name,
        include_python_functions=include_python_functions,
        compat=compat,
        per=per,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def total_average(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The sums of all rows of `key_averages`, as torch's ``total_average`` gives them.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per run and rank; ``profframe answer key_averages`` lists its columns, those with
        ``per=all``.
    """
    return answer(
        self, "key_averages", each=each, on=on, per="all", sort=sort, top=top, columns=columns
    )


def roofline(
    self: BaseTrace,
    per: str = "kernel",
    dtype: object = None,
    devices: Devices | None = None,
    *,
    override: bool = False,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How close device work came to the hardware's limits, and the time that was lost.

    Parameters
    ----------
    per
        What each row is: ``"kernel"`` (by name), ``"op"``, ``"shapes"`` (op and input shapes) or
        ``"dtype"``.
    dtype
        Data type assumed for work of unknown type: ``"bf16"``, ``"float16"``,
        ``torch.float32``; `float32` is fp32, never tf32.
    devices
        Device models that take precedence over the known ones, as for `profframe.load`.
    override
        Compare all work with the peak of ``dtype``, even if its type is known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Raises
    ------
    ParameterError
        There is no such data type, or ``override`` comes without one.
    """
    trace = self if devices is None else with_devices(self, devices)
    return answer(
        trace,
        "roofline",
        per=per,
        dtype=dtype,
        override=override,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def answers() -> pl.DataFrame:
    """List what can be asked of a trace.

    Returns
    -------
    polars.DataFrame
        ``name``, ``sentence``, and ``parameters`` as ``NAME=DEFAULT`` for each; ``kind``:
        ``answer`` (`Trace.answer`), or ``analysis``, which is a method of a trace or a function of
        two of them, without SQL; ``needs``: what a trace has to hold for it to have rows;
        ``divides_by``: ``rank``, ``run`` or ``no``, the finest part that ``each`` can name.

    Examples
    --------
    >>> answers().columns
    ['name', 'kind', 'sentence', 'parameters', 'needs', 'divides_by']
    """
    questions: list[tuple[str, Answer | Analysis]] = [("answer", one) for one in catalogue()]
    questions += [("analysis", one) for one in analyses.analyses()]
    rows = [
        (
            one.name,
            kind,
            one.sentence,
            ", ".join(f"{p.name}={p.default}" for p in one.all_parameters),
            reasons.needed(one.recorded),
            "" if one.division is None else one.division.unit,
        )
        for kind, one in sorted(questions, key=lambda question: question[1].name)
    ]
    names = ["name", "kind", "sentence", "parameters", "needs", "divides_by"]
    return Frame(rows, schema=names, orient="row")
