"""`Trace`: the tables of one or many traces, frozen, and the questions to ask them."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import polars as pl

from profframe.analysis.critical_path import CriticalPath
from profframe.analysis.critical_path import find as find_path
from profframe.query.answering import catalogue
from profframe.query.selection import Text, check_compat
from profframe.show import notebook, table, tree
from profframe.show.frame import Frame
from profframe.show.lines import Lines
from profframe.show.plots import Plots
from profframe.show.summary import Summary
from profframe.trace.exports import Exports
from profframe.trace.history import History

_KINDS = "SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY events DESC, kind"


class Trace(Exports, History):
    """Events of any number of runs and ranks, with the facts about them; nothing in it changes.

    Made by `profframe.load`. Its tables are polars DataFrames, its answers come from the files of
    ``sql/``.

    Examples
    --------
    >>> from profframe.schema import TABLES
    >>> empty = {name: table.arrow.empty_table() for name, table in TABLES.items()}
    >>> trace = Trace.from_tables(empty)
    >>> trace.self_times().height
    0
    """

    __slots__ = ()

    def table(  # noqa: PLR0917 -- torch's own arguments
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        compat: str | None = None,
    ) -> str:
        """Give the text of torch's ``key_averages().table()``.

        Numbers are rounded once, half to even; FLOPs and sources stand below their own headers;
        control bytes are written as escapes. ``compat="torch"`` repeats torch to the character.

        Parameters
        ----------
        sort_by
            torch's attribute to sort by, the largest first: ``cpu_time_total``, ``count``, ...
        row_limit
            Rows to print; all of them if it is negative.
        max_src_column_width, max_name_column_width
            Characters of the source and of the name; None is no limit.
        header
            A line above the table.
        top_level_events_only
            Leave out what has its first occurrence inside another event.
        time_unit
            ``s``, ``ms`` or ``us`` for all times.
        group_by_input_shape, group_by_stack_n, group_by_overload_name
            As in `key_averages`.
        compat
            ``"torch"``: as torch prints it, with what its floats make of a tie.

        Returns
        -------
        str
            Lines. Of several traces, a table each, with its run and rank above it.

        Raises
        ------
        UnknownNameError
            Rows have no such attribute, or there is no such unit; the message suggests the nearest.
        ParameterError
            Another value cannot be used.
        """
        check_compat(compat)
        options = table.Options(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            header,
            top_level_events_only,
            time_unit,
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            as_torch=compat == "torch",
        )
        with self._connection() as connection:
            return Lines(table.text(connection, options))

    def tree(
        self,
        event_id: int | None = None,
        depth: int | None = None,
        run: str | None = None,
        rank: int | None = None,
        row_limit: int = 200,
    ) -> tree.Tree:
        """Draw host slices inside one another, depth first, with their times.

        Parameters
        ----------
        event_id
            Slice to begin with; None for all that are in no other, the busiest thread first.
        depth
            Levels below it; None for as many as fit into the rows.
        run, rank
            Which trace, where there are several.
        row_limit
            Slices to draw; all of them if it is negative.

        Returns
        -------
        profframe.show.tree.Tree
            Text with a line for each slice: duration, what of it is in none of its children, device
            time launched inside it, share of the outermost slice that is drawn, ``event_id``, and
            name. ``(+n inside)`` counts slices that are too deep, the last line all that are not
            drawn.

        Raises
        ------
        UnknownNameError
            There is no such event, run or rank.
        ParameterError
            There are several traces, or the event is no host slice that nests, as a kernel.
        """
        chosen = self.filter(runs=run, ranks=rank)
        options = tree.Options(event_id, depth, row_limit)
        with chosen._connection(dict.fromkeys(("events", "threads"))) as connection:  # noqa: SLF001 - its own kind
            return tree.text(connection, options)

    @property
    def plot(self) -> Plots:
        """Answers as charts (``pip install 'profframe[plot]'``): ``trace.plot.kernels()``, ..."""
        return Plots(self)

    @property
    def self_cpu_time_total(self) -> int:
        """Host time of all operators, each moment of a thread counted once, in nanoseconds."""
        return int(self.total_average()["self_cpu_ns"].sum())

    def critical_path(
        self,
        step: int | None = None,
        run: str | None = None,
        rank: int | None = None,
        annotation: str | None = None,
        instance: int = 0,
    ) -> CriticalPath:
        """Find what the end of a step had to wait for, back to its start: host, launches, devices.

        Parameters
        ----------
        step
            N of a profiler step: from its start to the end of the last work that it launched.
        run, rank
            The trace, where there are several.
        annotation
            Name of an annotation in place of a step.
        instance
            Which of the annotations of that name, from 0.

        Returns
        -------
        CriticalPath
            Its ``events`` without a gap, its ``length_ns``, and its ``bounds``: how much of the
            length is bound by what. Without step and annotation it is of the whole trace.

        Raises
        ------
        UnknownNameError
            There is no such run, rank, step or annotation; the message says which there are.
        ParameterError
            There are several (run, rank), or a value is of the wrong type.

        Examples
        --------
        >>> from profframe import load
        >>> path = load("examples/cpu_training.json.gz").critical_path()
        >>> path.bounds["bound"][0], path.bounds["total_ns"].sum() == path.length_ns
        ('host', True)
        """
        chosen = self.filter(runs=run, ranks=rank)
        with chosen._connection(dict.fromkeys(("events", "traces"))) as connection:  # noqa: SLF001 - its own kind
            return find_path(connection, step, annotation, instance)

    def report(
        self,
        path: str | PathLike[str],
        *,
        title: str | None = None,
        sections: Text | None = None,
        rows: int = 1000,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        """Write a page about everything in the trace: one HTML file that opens anywhere.

        It needs no network and no server. Its tables are the answers, each with its call; what is
        cut is said there. Of more than 16 traces, details are of the latest run and its first
        ranks; all runs are in section ``runs``.

        Parameters
        ----------
        path
            File to write; one that is there is replaced at the end.
        title
            What stands above the page; the name of the run, or the number of runs.
        sections
            Only these: ``"overview"``, ``"advice"``, ``"time"``, ``"operators"``, ``"kernels"``,
            ``"idle"``, ``"queues"``, ``"memory"``, ``"regions"``, ``"flame"``, ``"roofline"``,
            ``"ranks"``, ``"runs"``, ``"quality"``, ``"provenance"``. What a trace has nothing of
            is left out anyway.
        rows
            Most rows of a table.
        progress
            Called with the number of sections done, of all, and the name of the next.

        Raises
        ------
        UnknownNameError
            There is no such section.
        ParameterError
            ``rows`` is less than 1, or none of the sections has anything to show.
        MissingExtraError
            altair or jinja2 is not installed (``pip install 'profframe[report]'``).
        ExportError
            The file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from profframe import load
        >>> trace = load("examples/cpu_training.json.gz")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace.report(Path(folder, "report.html"), sections=["operators"])
        ...     Path(folder, "report.html").read_text().splitlines()[0]
        '<!DOCTYPE html>'
        """
        from profframe.export import report

        report.write(self._of_any_rows(), path, report.Options(title, sections, rows), progress)

    def summary(self) -> Summary:
        """What is inside, in a few labelled lines; the text of ``repr``."""
        trace = self._of_any_rows()
        return Summary(
            overview=trace.overview(),
            kinds=trace.sql(_KINDS),
            steps=trace.steps(),
            traces=trace.traces,
            quality=trace.quality,
        )

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return notebook.trace_html(self.summary())


def answers() -> pl.DataFrame:
    """List the answers that come with profframe.

    Returns
    -------
    polars.DataFrame
        ``name``, ``sentence``, and ``parameters`` as ``NAME=DEFAULT``, of each.

    Examples
    --------
    >>> answers().columns
    ['name', 'sentence', 'parameters']
    """
    found = catalogue()
    return Frame(
        {
            "name": [answer.name for answer in found],
            "sentence": [answer.sentence for answer in found],
            "parameters": [
                ", ".join(f"{p.name}={p.default}" for p in answer.parameters) for answer in found
            ],
        }
    )
