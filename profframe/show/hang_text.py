"""Hangs in words, from rows of the answer `hangs` and their sides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from profframe.query.selection import spans
from profframe.show import units
from profframe.show.units import plural

if TYPE_CHECKING:
    import polars as pl

_ASPECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": ("kind",),
    "order": ("kind",),
    "size": ("input_sizes", "output_sizes"),
    "dtype": ("input_dtypes", "output_dtypes"),
}
_DEFAULT: Final = "default_pg"
"""Description of the group of all ranks."""
_MOST_RANKS: Final = 4
"""Maximum ranks that are written one by one."""
_WORDS: Final[Mapping[str, str]] = {
    "order": "calls in a different order",
    "kind": "calls a different collective",
    "size": "has a different size",
    "dtype": "has a different data type",
}
_SHOWN: Final = (
    "run", "process_group_description", "process_group", "kind", "collective_seq", "line",
    "finding", "late_ranks", "waiting_ranks", "other_ranks", "not_loaded_ranks", "late_at",
)  # fmt: skip
_OPTIONAL: Final = (
    "run", "process_group_description", "collective_seq", "line", "late_ranks", "waiting_ranks",
    "other_ranks", "not_loaded_ranks", "late_at",
)  # fmt: skip


def finding(row: Mapping[str, Any], sides: pl.DataFrame) -> str:
    """One row of `hangs` as a sentence.

    Parameters
    ----------
    row
        The row.
    sides
        Rows of `hangs` by rank; they may include those of other hangs.
    """
    parts = (_late(row), _other(row, sides), _waiting(row), _elsewhere(row, sides))
    text = "; ".join(part for part in parts if part)
    unloaded = row["not_loaded_ranks"]
    text += f" (no dump of {ranks(unloaded)})" if unloaded else ""
    return text.replace("\n", "\\n")  # of a name: a sentence is one line


def headline(hangs: pl.DataFrame, sides: pl.DataFrame, progress: pl.DataFrame) -> str:
    """What matters most, in a sentence; one line per cause if there are several."""
    causes = hangs.filter(hangs["is_cause"]) if hangs.height else hangs
    rows = (causes if causes.height else hangs).to_dicts()
    rows = [row for row in rows if row["finding"] != "not_ended"] or rows
    untold = _untold(progress)
    if rows:
        lines = [finding(row, sides) for row in _first_of_each_group(rows)]
        if untold and all(row["finding"] == "not_ended" for row in rows):
            lines.append(untold)
        if not causes.height and len(lines) > 1:
            lines.insert(0, "ranks wait for one another, in a circle:")
        return "\n".join(line[0].upper() + line[1:] for line in lines)
    loaded = progress.filter(progress["is_loaded"])
    if loaded.select("run", "rank").n_unique() == 1:
        lasts = loaded.sort("created_ns", maintain_order=True).tail(1).to_dicts()
        seq = lasts[0]["last_seq"] if lasts else None
        named = {"collective_seq": seq, "line": None}
        last = f": the last call is {call(lasts[0] | named)}" if seq else ""
        return f"This dump alone shows no hang{last}"
    return _nothing(progress, loaded, untold)


def contents(row: Mapping[str, Any]) -> str:
    """What dumps contain: ranks, number of records, and when they were made.

    Parameters
    ----------
    row
        A row of `sql/file_summaries/dumps.sql`.
    """
    of = "" if row["world_size"] is None else f" of {row['world_size']:,}"
    parts = [
        f"{ranks(row['ranks'])}{of}",
        *([row["backends"]] if row["backends"] else []),
        units.plural(row["records"], "record"),
        *([f"{row['open']:,} of them not ended"] if row["open"] else []),
        units.plural(row["groups"] or 0, "process group"),
        *([f"version {row['versions']}"] if row["versions"] else []),
    ]
    if row["first_ns"] is not None:
        span = units.duration(row["last_ns"] - row["first_ns"])
        parts.append(f"{span} until {moment(row['last_ns'])}")
    return ", ".join(parts)


def lacking(sizes: pl.DataFrame, hangs: pl.DataFrame) -> str:
    """Advice if dumps of ranks are missing; empty if none is.

    Parameters
    ----------
    sizes
        Rows of `sql/file_summaries/dumps.sql`.
    hangs
        Rows of `hangs`.
    """
    for row in sizes.to_dicts():
        here = row["ranks"].count(",") + 1
        if (row["world_size"] is not None and here < row["world_size"]) or here == 1:
            missing = "" if row["world_size"] is None else f" of {row['world_size']:,}"
            return (
                f"{units.plural(here, 'rank')}{missing} {'has' if here == 1 else 'have'} a dump "
                "here: the dumps of all ranks together show which rank is late (profframe hang "
                "DUMP...)"
            )
    if hangs.height and hangs["not_loaded_ranks"].count():
        return "The dumps of all ranks together show which rank is late (profframe hang DUMP...)"
    return ""


def table(hangs: pl.DataFrame) -> pl.DataFrame:
    """Rows of `hangs` with the columns that people look at first."""
    one_run = hangs["run"].n_unique() < 2
    empty = {name for name in _OPTIONAL if hangs[name].is_null().all()}
    return hangs.select(_SHOWN).drop(*empty, *(["run"] if one_run and "run" not in empty else []))


def behind(progress: pl.DataFrame) -> pl.DataFrame:
    """Rows of `collective_progress`, without stacks."""
    return progress.drop("stack", "group_ranks", "created_ns")


def ranks(text: str) -> str:
    """Ranks as words.

    Examples
    --------
    >>> ranks("2"), ranks("0,1,3"), ranks("0,1,2,3,4,5,6,7,9")
    ('rank 2', 'ranks 0, 1, 3', 'ranks 0-7, 9')
    """
    numbers = text.split(",")
    shown = spans(map(int, numbers)) if len(numbers) > _MOST_RANKS else ", ".join(numbers)
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"


def call(row: Mapping[str, Any]) -> str:
    """The collective of a row.

    Examples
    --------
    >>> row = {"kind": "all_reduce", "collective_seq": 17, "line": None}
    >>> call(row | {"process_group": "0", "process_group_description": "default_pg"})
    'all_reduce 17 of group default_pg'
    """
    number = row["collective_seq"] if row["line"] is None else row["line"].replace(">", " to ")
    return f"{row['kind'] or 'collective'} {number} of group {group(row)}"


def group(row: Mapping[str, Any]) -> str:
    """The process group of a row: what it is for, else its name."""
    description = row["process_group_description"]
    return str(row["process_group"] if description in {None, "", "undefined"} else description)


def _late(row: Mapping[str, Any]) -> str | None:
    if row["late_ranks"] is None:
        return None
    places = row["late_at"] or ""
    one = "," not in row["late_ranks"]
    place = places.partition(": ")[2]
    at = f"it {'has' if place == 'no record' else 'is'} {place}"
    at = at if one else f"they are at: {places}"
    return f"{ranks(row['late_ranks'])} did not arrive at {call(row)}: {at}"


def _other(row: Mapping[str, Any], sides: pl.DataFrame) -> str | None:
    words = [word for word in row["finding"].split() if word in _WORDS]
    if not words:
        return None
    if row["other_ranks"] is None:  # sizes of all_to_all have no rank that is wrong
        return f"what ranks send at {call(row)} does not match what they receive"
    word = "order" if "order" in words else words[0]
    columns = [c for w in words for c in _ASPECTS[w]]
    own = _sides(row, sides)
    what = {
        is_other: [s for s in own if (s["role"] == "other") is is_other and _called(s)]
        for is_other in (True, False)
    }
    fitting = ",".join(str(side["rank"]) for side in what[False])
    have = "has" if "," not in fitting else "have"
    verb = _WORDS[word] if "," not in row["other_ranks"] else _WORDS[word].replace("has", "have")
    verb = verb.replace("calls", "call") if "," in row["other_ranks"] else verb
    return (
        f"{ranks(row['other_ranks'])} {verb} at {call(row)}: {_values(what[True], columns)}, "
        f"where {ranks(fitting)} {have} {_values(what[False], columns)}"
    )


def _elsewhere(row: Mapping[str, Any], sides: pl.DataFrame) -> str | None:
    """For a collective at which all arrived: who has ended it, and who has not begun."""
    if row["finding"] != "not_ended":
        return None
    firsts = {side["rank"]: side for side in reversed(_sides(row, sides)) if _called(side)}
    own = [firsts[rank] for rank in sorted(firsts)]
    states = {state: [s for s in own if s["state"] == state] for state in ("completed", "started")}
    ended = states["completed"]
    waiting = [side for side in own if side["state"] == "scheduled"] if states["started"] else []
    parts = []
    for some, verb in ((waiting, "not started"), (ended, "ended")):
        if some:
            have = "has" if len(some) == 1 else "have"
            parts.append(f"{ranks(','.join(str(s['rank']) for s in some))} {have} {verb} it")
    return "; ".join(parts) or None


def _untold(progress: pl.DataFrame) -> str:
    """Which ranks may be late where no dump lists the ranks of a group; empty if there are none.

    A rank that called nothing in such a group either is not a member of it, or did not arrive.
    """
    loaded: dict[str, set[int]] = {}
    callers: dict[tuple[str, str, str], set[int]] = {}
    for row in progress.to_dicts():
        if row["is_loaded"]:
            loaded.setdefault(row["run"], set()).add(row["rank"])
        if row["group_ranks"] is None and row["process_group_description"] != _DEFAULT:
            key = (row["run"], row["process_group"], group(row))
            callers.setdefault(key, set()).add(row["rank"])
    absent = [
        (name, rest)
        for (run, _, name), own in callers.items()
        if (rest := loaded.get(run, set()) - own)
    ]
    if not absent:
        return ""
    name, rest = absent[0]
    who = ranks(",".join(map(str, sorted(rest))))
    verb = "is" if len(rest) == 1 else "are"
    others = len(absent) - 1
    so = f" (and so it is with {plural(others, 'other group')})" if others else ""
    return (
        f"it cannot be told whether {who} {verb} late in group {name}: {who} called nothing there, "
        f"and the dumps do not say which ranks it has{so}"
    ).replace("\n", "\\n")


def _nothing(progress: pl.DataFrame, loaded: pl.DataFrame, untold: str) -> str:
    """A sentence that nothing hangs, from several dumps; who is behind, and who has no dump."""
    number = plural(loaded.select("run", "rank").n_unique(), "rank")
    runs = loaded["run"].n_unique()
    of = f" of {runs:,} runs" if runs > 1 else ""
    groups = plural(
        loaded.select("run", "process_group", "group_ranks").n_unique(), "process group"
    )
    far = f"{number}{of} got equally far in {groups}, and their calls match"
    if untold:
        far = f"the calls of {number}{of} in {groups} match, but {untold}"
    late = loaded.filter(loaded["missing_calls"] > 0).sort(
        "missing_calls", descending=True, maintain_order=True
    )
    if late.height:
        row = late.row(0, named=True)
        missing_calls = plural(row["missing_calls"], "collective")
        far = (
            f"the calls of {number}{of} in {groups} match and have ended, but rank "
            f"{row['rank']} is {missing_calls} behind in group {group(row)}"
            f"{f', and {untold}' if untold else ''}"
        )
    without = {*progress.filter(~progress["is_loaded"])["rank"].to_list()} if runs == 1 else set()
    missing = ""
    if without:
        verb = "has" if len(without) == 1 else "have"
        missing = f"; {ranks(','.join(map(str, sorted(without))))} {verb} no dump"
    return f"These dumps show no hang: {far}{missing}".replace("\n", "\\n")


def _sides(row: Mapping[str, Any], sides: pl.DataFrame) -> list[dict[str, Any]]:
    """The sides of a row of `hangs`."""
    keys = ("run", "process_group", "collective_seq", "line", "finding")
    return [side for side in sides.to_dicts() if all(side[key] == row[key] for key in keys)]


def _called(side: Mapping[str, Any]) -> bool:
    return side["record_id"] is not None and side["role"] != "late"


def _values(sides: list[dict[str, Any]], columns: list[str]) -> str:
    """The values of sides, each once."""
    texts = (
        " -> ".join(dict.fromkeys(str(side[c]) for c in columns if side[c] is not None))
        for side in sides
    )
    return " or ".join(dict.fromkeys(texts))


def _waiting(row: Mapping[str, Any]) -> str | None:
    if row["waiting_ranks"] is None:
        return None
    several = "," in row["waiting_ranks"]
    since = f" since {moment(row['since_ns'])}" if row["since_ns"] is not None else ""
    where = f" in {call(row)}" if row["finding"] == "not_ended" else ""
    tail = ", and it has not ended" if row["finding"] == "not_ended" else ""
    return f"{ranks(row['waiting_ranks'])} wait{'' if several else 's'}{where}{since}{tail}"


def moment(time_ns: int) -> str:
    """A time to the millisecond.

    Examples
    --------
    >>> moment(1_795_472_476_808_848_404)
    '2026-11-23 22:21:16.808 UTC'
    """
    seconds, rest = divmod(time_ns, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} UTC"


def _first_of_each_group(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first hang of each group: later ones may follow from it."""
    firsts: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        firsts.setdefault((row["run"], row["process_group"], row["group_ranks"]), row)
    return list(firsts.values())
