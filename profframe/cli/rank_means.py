"""Tables of several ranks: one row for what they have in common, unless each is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

import click

from profframe.cli.output import OutputOptions
from profframe.cli.part import Part

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.arrangement import Arrangement
    from profframe.query.header import Answer
    from profframe.trace.trace import Trace

_NAMING: Final = ("sort", "columns")
"""Parameters that name columns."""


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
        from profframe.query.arrangement import arranged

        arrangement, own = arrangement_of(answer, values)
        if top := own.pop("top", None):
            arrangement = replace(arrangement, top=arranged(answer.where, top=top).top)
        return cls(answer, own, arrangement)

    def are_wanted(self, trace: Trace, part: Part, output: OutputOptions) -> bool:
        """Whether people see several ranks, and name none of them."""
        from profframe.query.division import tables_by

        has_keys = self.answer.rank_keys is not None and bool(tables_by(self.answer))
        if not has_keys or output.form != "table" or part.ranks:
            return False
        named = {*output.columns, *self._sorted_by}
        return "rank" not in named and has_several_ranks(trace)

    def rows(self, trace: Trace, output: OutputOptions) -> pl.DataFrame:
        """The means, in the wanted order, with a note that says what they are."""
        import polars as pl

        from profframe.query.division import tables_by
        from profframe.show.empty_frames import docs_of
        from profframe.show.frame import frame
        from profframe.show.rank_means import note, rank_means, worst

        rows = trace.answer(self.answer, **self.parameters)
        wanted = {*output.columns, *self._sorted_by}
        if self.answer.rank_keys is None or not rows.height:
            return rows.with_columns(pl.lit(None).alias(n) for n in of_means(self.answer) & wanted)
        columns = tables_by(self.answer)
        asked_for = (name for name in columns if worst(name) in wanted)
        some = (name for name in columns if rows[name].sum())
        by = next(chain(asked_for, some), columns[0])
        has_ranks = "ranks" in wanted
        means = rank_means(rows, self.answer.rank_keys, by, has_ranks=has_ranks)
        if means is rows:
            self._refuse_own_columns(output)
            return self.arrangement.of_frame(self.answer.where, rows)
        arranged = self.arrangement.of_frame(self.answer.where, means)
        is_one_run = means["run"].n_unique() == 1 and "run" not in output.columns
        shown = arranged.drop("run") if is_one_run else arranged
        return frame(shown, docs=docs_of(rows), note=note(rows))

    def of_each(
        self, trace: Trace, values: Mapping[str, object], output: OutputOptions
    ) -> pl.DataFrame:
        """The rows of each rank."""
        self._refuse_own_columns(output)
        return trace.answer(self.answer, **values)

    def _refuse_own_columns(self, output: OutputOptions) -> None:
        """Raise an error for a wanted column that only the means of ranks have."""
        own = of_means(self.answer)
        for option, names in (("--columns", output.columns), ("--sort", self._sorted_by)):
            if name := next((name for name in names if name in own), None):
                raise click.UsageError(
                    f"{option} {name}: only tables of several ranks have it, with a row for all of "
                    "them: without --rank, --per rank, and columns or an order by rank"
                )

    @property
    def _sorted_by(self) -> list[str]:
        return [name for name, _ in self.arrangement.sort]


def of_means(answer: Answer) -> set[str]:
    """Columns that an answer has only where a row is the mean of several ranks."""
    from profframe.query.division import tables_by
    from profframe.show.rank_means import worst

    if answer.rank_keys is None:
        return set()
    own = {column.name for column in answer.columns}
    return {"ranks", "worst_rank", *map(worst, tables_by(answer))} - own


def without_means(answer: Answer, values: Mapping[str, object]) -> dict[str, object]:
    """Values of parameters without the names of `of_means`: what the answer itself can check."""
    own = of_means(answer)

    def rest(value: object) -> object:
        if not own or not isinstance(value, str):
            return value
        return ",".join(word for word in value.split(",") if word.strip().lstrip("+-") not in own)

    return {name: rest(value) if name in _NAMING else value for name, value in values.items()}


def arrangement_of(
    answer: Answer, values: Mapping[str, object]
) -> tuple[Arrangement, dict[str, object]]:
    """The wanted rows and columns, also those of means of ranks, and the answer's own values."""
    from profframe.query.arrangement import arranged, divided, shared

    _, own = divided(answer, without_means(answer, values))
    names = {parameter.name for parameter in shared(answer)}
    wanted = {name: value for name, value in values.items() if name in names}
    return arranged(answer.where, **wanted), own


def has_several_ranks(trace: Trace) -> bool:
    """Whether a run of a trace has several ranks."""
    traces = trace.traces.select("run", "rank")
    return traces.n_unique() > traces["run"].n_unique()
