"""Advice, with gains from replays of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from profframe.errors import AnswerError, ProfframeError
from profframe.query.arrangement import divided
from profframe.query.catalogue import is_shipped, reads
from profframe.query.frames import plain
from profframe.query.rules import Advice
from profframe.query.run import RuleFindings, findings, on, ranked, user_findings
from profframe.trace.base_trace import BaseTrace
from profframe.trace.jobs import replayed

if TYPE_CHECKING:
    from profframe.analysis.simulation.remedies import Changed, Remedy
    from profframe.analysis.simulation.what_if import JobModel

MOST_RUNS: Final = 4
"""Maximum runs that one question replays."""
MOST_EVENTS: Final = 20_000_000
"""Maximum events of a run that is replayed."""
MOST_ERROR: Final = 0.02
"""Share of a run by which the unchanged replay may be off."""

_COLUMNS: Final = (
    "finding_number", "run", "rank", "ranks", "rule", "cause", "where", "suggestion", "replay",
    "claim_order",
)  # fmt: skip
_LISTS: Final = ("changed_events", "changed_factors")
_LATE_BY: Final = "late by "
_SCHEMA: Final = pa.schema(
    [
        ("finding_number", pa.int64()),
        ("gain_ns", pa.int64()),
        ("least_gain_ns", pa.int64()),
        ("most_gain_ns", pa.int64()),
        ("named_gain_ns", pa.int64()),
        ("window_ns", pa.float64()),
        ("replay_error", pa.float64()),
        ("not_replayed", pa.string()),
    ]
)
_BROKEN: Final = (
    ProfframeError, duckdb.Error, ArithmeticError, ValueError, LookupError, MemoryError,
)  # fmt: skip
"""Errors of a replay with impossible times."""


def advice(self: BaseTrace, question: Advice, parameters: Mapping[str, object]) -> pl.DataFrame:
    """The rows of advice: what rules find, ranked by the gain in a replay of each run.

    A gain stays that of the rule, and ``gain_basis`` says why, if there is no replay: in a question
    about more than ``MOST_RUNS`` runs or with a time limit, in a run with more than ``MOST_EVENTS``
    events, or if the unchanged replay is off by more than ``MOST_ERROR``.
    """
    session = self._session
    arrangement, _ = divided(question, parameters)
    views = reads(question)
    run = partial(
        findings if is_shipped(question) else user_findings,
        answer=question,
        parameters=parameters,
        terms=session.terms,
        in_steps=session.in_steps,
    )
    everything = run(session.select) if is_shipped(question) else session.ask(run, views)
    gains = pa.Table.from_pylist(_gains(self, everything), _SCHEMA)
    try:
        rank = partial(
            ranked,
            answer=question,
            rows=everything.rows,
            gains=gains,
            terms=session.terms,
            arrangement=arrangement,
        )
        if is_shipped(question):
            return plain(rank(session.select))
        return plain(session.ask(lambda c: rank(on(c, reuse=False)), {}))
    except AnswerError:
        session.answer(question, parameters)  # it names the file of the rule that failed
        raise


def _gains(self: BaseTrace, everything: RuleFindings) -> list[dict[str, Any]]:
    """Gains of findings by replay, or why there is no replay."""
    wanted = _to_replay(everything.rows)
    if not wanted:
        return []
    traces = self._session.rows("traces")
    runs = traces["run"].n_unique()
    if self._session.terms.timeout_s is not None:
        return _not_replayed(wanted, "the question has a time limit")
    if runs > MOST_RUNS:
        return _not_replayed(
            wanted, f"it is one of {runs:,} runs, and at most {MOST_RUNS} are replayed at once"
        )
    windows = {(row["run"], row["rank"]): row for row in everything.windows.to_pylist()}
    counts = self._session.select(
        "SELECT run::VARCHAR AS run, count(*) AS events FROM events GROUP BY run"
    )
    sizes = dict(zip(*counts.to_pydict().values(), strict=True))
    rows = []
    for run in dict.fromkeys(row["run"] for row in wanted):
        of_run = [row for row in wanted if row["run"] == run]
        if sizes.get(str(run), 0) > MOST_EVENTS:
            rows += _not_replayed(of_run, f"the run has more than {MOST_EVENTS:,} events")
        else:
            rows += _of_run(self, run, of_run, windows)
    return rows


def _to_replay(rows: pa.Table) -> list[dict[str, Any]]:
    """Findings that a replay can say something about, without their texts."""
    has_evidence = pl.col("evidence_events").list.len() > 0
    has_events = (pl.col("changed_events").list.len() > 0) | pl.col("replay").is_in(
        ["launches", "stragglers"]
    )
    wanted = (
        pl.DataFrame(rows)
        .filter(has_evidence, pl.col("replay").is_not_null(), has_events)
        .sort("own_gain_ns", "finding_number", descending=[True, False], nulls_last=True)
    )
    lists = [wanted[name] for name in _LISTS]
    return [
        row | {values.name: _array(values[place]) for values in lists}
        for place, row in enumerate(wanted.select(_COLUMNS).to_dicts())
    ]


def _array(values: pl.Series | None) -> NDArray[Any] | None:
    return None if values is None else values.to_numpy()


def _not_replayed(rows: Sequence[Mapping[str, Any]], reason: str) -> list[dict[str, Any]]:
    return [{"finding_number": row["finding_number"], "not_replayed": reason} for row in rows]


def _of_run(
    self: BaseTrace,
    run: str | None,
    rows: Sequence[Mapping[str, Any]],
    windows: Mapping[tuple[Any, Any], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Gains in one run: one row for each cause, with all ranks that have it."""
    from profframe.analysis.simulation.remedies import CAUSES, gains

    rows, result = _of_their_own(rows)
    groups: dict[object, list[Mapping[str, Any]]] = {}
    turns = Counter[object]()  # a rank may have several of a key: each is one with others' like it
    for row in rows:
        turn = row["rank"], _key(row)
        groups.setdefault((turns[turn], _key(row)), []).append(row)
        turns[turn] += 1
    alike = [group for group in groups.values() if _cause(group[0]) in CAUSES]
    others = [row for group in groups.values() if group not in alike for row in group]
    result += _not_replayed(others, "no change of a replay simulates it")
    if not alike:
        return result
    replays = [row for group in alike for row in group]
    try:
        model, _, _ = replayed(self, None, run)
        named, error = gains(model, [_remedy(group, windows) for group in alike])
        gained = _gained(model, alike, named)
    except AnswerError as refusal:
        return result + _not_replayed(replays, str(refusal))
    except _BROKEN as failure:
        reason = str(failure) or type(failure).__name__
        return result + _not_replayed(replays, f"it failed: {reason}")
    if abs(error) > MOST_ERROR:
        reason = f"the unchanged replay is {abs(error):.1%} off"
        return result + _not_replayed(replays, reason)
    for group, gain in zip(alike, gained, strict=True):
        for row in group:
            window = windows.get((row["run"], row["rank"]), {})
            result.append(
                {
                    "finding_number": row["finding_number"],
                    "window_ns": window.get("window_ns"),
                    "replay_error": error,
                }
                | gain
            )
    return result


def _gained(
    model: JobModel, groups: Sequence[Sequence[Mapping[str, Any]]], named: Sequence[int]
) -> list[dict[str, int]]:
    """The gain of each group of findings; of late ranks it is that of `what_if`, with its range.

    ``named`` has the gains of the suggestions themselves. For late ranks these are too small: a
    finding names one cause, and ranks are often late for several.
    """
    from profframe.analysis.simulation.what_if import saved, without_stragglers

    gained = [{"gain_ns": gain} for gain in named]
    late = [place for place, group in enumerate(groups) if group[0]["replay"] == "stragglers"]
    if late:
        gain, least, most = saved(model, without_stragglers(model))
        of_all = {"gain_ns": gain, "least_gain_ns": least, "most_gain_ns": most}
        for place in late:
            gained[place] = of_all | {"named_gain_ns": named[place]}
    return gained


def _of_their_own(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    """Findings minus events already claimed by earlier rules, and findings with nothing left.

    A finding about all of a rank's time excludes its ``but_events``.
    """
    own: list[Mapping[str, Any]] = []
    taken: list[Mapping[str, Any]] = []
    before: dict[object, NDArray[Any]] = {}
    nothing = np.empty(0, np.int64)
    places = [row["claim_order"] for row in rows]
    for place in sorted(set(places)):
        of_rule = [row for row in rows if row["claim_order"] == place]
        for row in of_rule:
            events, factors = row["changed_events"], row["changed_factors"]
            others = before.get((row["rank"], row["replay"]), nothing)
            if events is None or not others.size:
                own.append({**row, "but_events": others})
                continue
            kept = ~np.isin(events, others)
            factors = None if factors is None else factors[kept]
            changed = {"changed_events": events[kept], "changed_factors": factors}
            (own if kept.any() else taken).append({**row, **changed, "but_events": nothing})
        for row in of_rule:
            if row["changed_events"] is not None:
                key = row["rank"], row["replay"]
                before[key] = np.append(before.get(key, nothing), row["changed_events"])
    order = {row["finding_number"]: number for number, row in enumerate(rows)}
    own.sort(key=lambda row: order[row["finding_number"]])
    return own, _not_replayed(taken, "other findings change the same events")


def _key(row: Mapping[str, Any]) -> tuple[object, ...]:
    """The grouping key of findings: equal for ranks that share one finding, as in the answer."""
    if row["cause"] is not None:
        return row["rule"], row["cause"]
    return row["rule"], None, row["where"], row["suggestion"]


def _cause(row: Mapping[str, Any]) -> str:
    """The cause of a finding about late ranks; the host for all other findings."""
    is_late = row["replay"] == "stragglers"
    return (row["cause"] or "").removeprefix(_LATE_BY) if is_late else "host"


def _remedy(
    group: Sequence[Mapping[str, Any]], windows: Mapping[tuple[Any, Any], Mapping[str, Any]]
) -> Remedy:
    from profframe.analysis.simulation.remedies import Changed, Remedy

    ranks: dict[int, Changed] = {}
    for row in group:
        for rank in row["ranks"] or [row["rank"]]:
            marks = windows.get((row["run"], rank), {}).get("marks") or []
            events, factors = row["changed_events"], row["changed_factors"]
            ranks[rank] = Changed(
                np.empty(0, np.int64) if events is None else events,
                factors,
                np.array(marks, np.int64),
                is_all=events is None,
                but=row["but_events"],
            )
    return Remedy(group[0]["replay"], ranks, _cause(group[0]))
