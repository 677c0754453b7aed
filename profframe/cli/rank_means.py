"""Tables of several ranks: one row for what they have in common, unless each is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from profframe.cli.output import OutputOptions
from profframe.cli.part import Part

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.arrangement import Arrangement
    from profframe.query.header import Answer
    from profframe.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class RankMeans:
    """An answer whose rows of several ranks are shown as one row each.

    Rows are sorted and cut after that: the first rows of each rank are not those of all ranks.
    """

    answer: Answer
    parameters: Mapping[str, object]
    arrangement: Arrangement

    @classmethod
    def of(cls, answer: Answer, values: Mapping[str, object]) -> Self:
        """An answer with its values, of which those for the order and the number apply last."""
        from profframe.query.arrangement import arranged, divided

        arrangement, own = divided(answer, values)
        if top := own.pop("top", None):
            arrangement = replace(arrangement, top=arranged(answer.where, top=top).top)
        return cls(answer, own, arrangement)

    def are_wanted(self, trace: Trace, part: Part, output: OutputOptions) -> bool:
        """Whether people see several ranks, and name none of them."""
        from profframe.query.division import tables_by

        has_keys = self.answer.rank_keys is not None and bool(tables_by(self.answer))
        if not has_keys or output.form != "table" or part.ranks:
            return False
        named = {*output.columns, *(name for name, _ in self.arrangement.sort)}
        return "rank" not in named and has_several_ranks(trace)

    def rows(self, trace: Trace, output: OutputOptions) -> pl.DataFrame:
        """The means, in the wanted order, with a note that says what they are."""
        from profframe.query.division import tables_by
        from profframe.show.empty_frames import docs_of
        from profframe.show.frame import frame
        from profframe.show.rank_means import note, rank_means

        rows = trace.answer(self.answer, **self.parameters)
        if self.answer.rank_keys is None or not rows.height:
            return rows
        columns = tables_by(self.answer)
        by = next((name for name in columns if rows[name].sum()), columns[0])
        means = rank_means(rows, self.answer.rank_keys, by)
        wanted = self.arrangement.of_frame(self.answer.where, means)
        if means is rows:
            return wanted
        is_one_run = means["run"].n_unique() == 1 and "run" not in output.columns
        shown = wanted.drop("run") if is_one_run else wanted
        return frame(shown, docs=docs_of(rows), note=note(rows))


def has_several_ranks(trace: Trace) -> bool:
    """Whether a run of a trace has several ranks."""
    traces = trace.traces.select("run", "rank")
    return traces.n_unique() > traces["run"].n_unique()
