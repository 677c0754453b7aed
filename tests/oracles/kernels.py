"""Kernels, overlap, annotations and modules by loops over rows."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import Any, Final

from tests.oracles.intervals import length, merged, shared, when
from tests.oracles.launching import WORK, by_id, largest, last, mean, percentile, site_of

Row = Mapping[str, Any]
Answer = list[tuple[Any, ...]]

COLUMNS: Final = (
    *("run", "rank", "event_id", "kind", "name", "start_ns", "dur_ns", "thread", "device"),
    *("stream", "step", "preorder", "parent_id", "launch_id", "op_id", "collective"),
    "fwd_id",
    *("process_group", "python_module_id", "module_hierarchy"),
    *("kernel_category", "computes_and_communicates"),
    *("annotation_id", "python_stack", "inference_phase"),
)
"""Columns that the loops look at."""
COMMUNICATION: Final = ("collective", "expert_parallel", "point_to_point")


def class_of(row: Row) -> str:
    """compute, communication or copy."""
    if row["kind"] == "memcpy":
        return "copy"
    talks = row["kind"] == "kernel" and row["kernel_category"] in COMMUNICATION
    return "communication" if talks else "compute"


def short_name(row: Row) -> str | None:
    """The function of a kernel, character by character; all that is in no brackets of a copy."""
    name = row["name"]
    if name is None:
        return None
    if row["kind"] == "kernel" and not {"<", "("} & set(name):
        return generated_name(name)
    outside, open_ = "", 0
    for character in name.replace("->", ""):
        open_ += character in "<("
        outside += character if open_ == 0 else ""
        open_ -= character in ">)" and open_ > 0
    outside = re.sub(r"\[clone .*\]", "", outside).strip()
    if row["kind"] != "kernel":
        return outside or name
    last = (outside.split() or [""])[-1]
    return "::".join(part for part in last.split("::") if part) or name


def generated_name(name: str) -> str:
    """A name of Tensile up to its tile, of CuTe up to its address, of a linker as its words."""
    words = name.split("_")
    tiles = [n for n, word in enumerate(words) if re.fullmatch(r"MT\d+x\d+x\d+", word)]
    if any(word.endswith("Cijk") for word in words) and tiles:
        end = tiles[0] + 1
        end += bool(re.fullmatch(r"MI\d+x\d+x\d+", words[end] if end < len(words) else ""))
        return "_".join(words[:end]) if end < len(words) else name
    if "kernel_cutlass_" in name and "_object_at_" in name:
        return name[: name.index("_object_at_")]
    if not name.startswith("_Z") or not name.isascii():
        return name
    rest, parts = name[2:].removeprefix("N").removeprefix("L"), []
    while size := re.match(r"L?(\d+)", rest):
        rest = rest[size.end() :]
        parts.append(rest[: int(size[1])])
        if len(parts[-1]) < int(size[1]):
            return name
        rest = rest[int(size[1]) :]
    if parts[:2] == ["ck_tile", "kentry"]:
        size_of = re.search(r"NS_(\d+)", rest)
        assert size_of, name
        return f"ck_tile::kentry<{rest[size_of.end() :][: int(size_of[1])]}>"
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) or name


def fused(name: str | None) -> str | None:
    """What stands behind `fused_` in a name of Inductor, without the number."""
    words = (name or "").split("_")
    if words[0] != "triton" or "fused" not in words:
        return None
    rest = words[words.index("fused") + 1 :]
    return "_".join(rest[:-1] if rest and rest[-1].isdigit() else rest) or None


def of_kernels(
    rows: Sequence[Row], per: str = "name", top: int = 0, copies: bool = False
) -> Answer:
    """Rows of the answer, with floats for its quotients."""
    labels = {
        "name": lambda row: row["name"],
        "short_name": short_name,
        "category": lambda row: row["kernel_category"],
        "class": class_of,
    }
    named = {(row["run"], row["rank"], row["event_id"]): row["name"] for row in rows}
    all_rows = by_id(rows)
    groups: dict[Any, dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["kind"] == "kernel" or (copies and row["kind"] in WORK):
            groups[row["run"], row["rank"]][labels[per](row), class_of(row)].append(row)
    found = []
    for trace, of_label in groups.items():
        everything = sum(total(members) or 0 for members in of_label.values())
        of_class: dict[str, int] = defaultdict(int)
        for (_, class_), members in of_label.items():
            of_class[class_] += total(members) or 0
        ordered = sorted(
            of_label, key=lambda key: (largest(total(of_label[key])), last(key[0]), key[1])
        )
        kept = ordered if top <= 0 else ordered[:top]
        shown = [(False, *key, of_label[key]) for key in kept]
        if len(kept) < len(ordered):
            rest = [row for key in ordered[len(kept) :] for row in of_label[key]]
            shown.append((True, "others", None, rest))
        for is_rest, label, class_, members in shown:
            durations = [row["dur_ns"] for row in members if row["dur_ns"] is not None]
            tiny = sum(dur < 5_000 for dur in durations)
            sum_ns: Any = total(members)
            per_op: dict[str, int] = defaultdict(int)
            for row in members:
                op = named.get((*trace, row["op_id"]))
                if op is not None:
                    per_op[op] += row["dur_ns"] or 0
            op = min(per_op, key=lambda name: (-per_op[name], name), default=None)
            per_category: dict[str, int] = defaultdict(int)
            for row in members:
                per_category[row["kernel_category"]] += row["dur_ns"] or 0
            most = min(per_category, key=lambda name: (-per_category[name], name))
            named_label = per in {"name", "short_name"} and not is_rest
            per_site: dict[str, int] = defaultdict(int)
            for row in members:
                if row["op_id"] is None and row["launch_id"] is not None:
                    site = site_of(row, all_rows)
                    if site is not None:
                        per_site[site] += row["dur_ns"] or 0
            site = min(per_site, key=lambda name: (-per_site[name], name), default=None)
            found.append(
                (
                    is_rest,
                    (
                        *trace,
                        label,
                        len(members),
                        sum_ns,
                        mean(durations),
                        percentile(durations, 50),
                        floor(statistics.stdev(durations) + 0.5) if len(durations) > 1 else None,
                        min(durations, default=None),
                        max(durations, default=None),
                        part(sum_ns, everything),
                        op,
                        part(per_op[op], sum_ns) if op is not None else None,
                        site,
                        part(per_site[site], sum_ns) if site is not None else None,
                        class_,
                        part(sum_ns, of_class[class_]) if class_ else None,
                        short_name(members[0]) if named_label else None,
                        None if is_rest else most,
                        None if is_rest or most != "triton_fused" else fused(label) or fused(op),
                        tiny,
                        part(tiny, len(durations)),
                        sum(dur for dur in durations if dur < 5_000) if durations else None,
                        any(row["computes_and_communicates"] for row in members),
                    ),
                )
            )
    ordered_rows = sorted(
        found,
        key=lambda one: (
            one[0],
            largest(one[1][4]),
            *one[1][:2],
            last(one[1][2]),
            last(one[1][14]),
        ),
    )
    return [row for _, row in ordered_rows]


def total(members: Iterable[Row]) -> int | None:
    """Sum of the durations that are known."""
    known = [row["dur_ns"] for row in members if row["dur_ns"] is not None]
    return sum(known) if known else None


def part(of: int | None, whole: int | None) -> float | None:
    """A quotient, where there is one."""
    return of / whole if of is not None and whole else None


class Rank:
    """One (run, rank): its rows by id, its work, and when its devices were busy and computed."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {row["event_id"]: row for row in rows}
        self.work = [
            row
            for row in rows
            if row["kind"] in WORK and row["start_ns"] is not None and row["dur_ns"] is not None
        ]
        self.busy = merged(when(row) for row in self.work)
        self.computing = merged(when(row) for row in self.work if class_of(row) == "compute")

    def around(self, row: Row | None) -> list[Row]:
        """A row that nests and those around it, innermost first."""
        found = []
        while row is not None and row["preorder"] is not None:
            found.append(row)
            row = self.rows.get(row["parent_id"])
        return found

    def launched_in(self, work: Row) -> list[Row]:
        """What was around the launch of work."""
        launch, op = work["launch_id"], work["op_id"]
        return self.around(self.rows.get(launch if launch is not None else op))

    def exposed(self, work: Iterable[Row]) -> int:
        """Time in which some of it communicated, and nothing computed."""
        talking = merged(when(row) for row in work if class_of(row) == "communication")
        return length(talking) - shared(talking, self.computing)

    def sums(self, work: Sequence[Row]) -> tuple[Any, ...]:
        """kernels device_ns busy_ns span_ns exposed_communication_ns idle_ns."""
        span = idle = None
        if work:
            window = (min(when(r)[0] for r in work), max(when(r)[1] for r in work))
            span = window[1] - window[0]
            idle = span - shared([window] if span else [], self.busy)
        return (
            sum(row["kind"] == "kernel" for row in work),
            sum(row["dur_ns"] for row in work),
            length(when(row) for row in work),
            span,
            self.exposed(work),
            idle,
        )


def ranks(rows: Sequence[Row]) -> dict[tuple[Any, ...], Rank]:
    """The rows of each rank."""
    parts = defaultdict(list)
    for row in rows:
        parts[row["run"], row["rank"]].append(row)
    return {key: Rank(parts[key]) for key in sorted(parts)}


def of_overlap(rows: Sequence[Row], per: str = "rank") -> Answer:
    """Rows of the answer."""
    found = []
    for trace, rank in ranks(rows).items():
        groups = defaultdict(list)
        for row in rank.work:
            if class_of(row) != "communication":
                continue
            op = rank.rows.get(row["op_id"]) or {"process_group": None, "collective": None}
            group, collective = (
                row[word] if row[word] is not None else op[word]
                for word in ("process_group", "collective")
            )
            key = {
                "rank": (None,) * 4,
                "process_group": (group, None, None, None),
                "collective": (group, collective, row["event_id"], row["name"]),
            }[per]
            groups[key].append(row)
        for key, members in groups.items():
            all_ns = length(when(row) for row in members)
            open_ns = rank.exposed(members)
            start = min(row["start_ns"] for row in members)
            hidden = all_ns - open_ns
            numbers = (start, len(members), all_ns, hidden, open_ns, part(hidden, all_ns))
            found.append((*trace, *key, *numbers))
    return sorted(found, key=lambda r: (*r[:2], r[6], last(r[2]), r[4] if r[4] is not None else -1))


def of_categories(rows: Sequence[Row], per: str = "rank") -> Answer:
    """Rows of the answer `kernel_categories`."""
    found = []
    for trace, rank in ranks(rows).items():
        groups: Any = defaultdict(lambda: defaultdict(list))
        for row in rank.work:
            place = {
                "rank": (None, None, None),
                "step": (row["step"], None, None),
                "stream": (None, row["device"], row["stream"]),
            }[per]
            groups[place][row["kernel_category"], class_of(row)].append(row)
        of_class = {
            name: merged(when(row) for row in rank.work if class_of(row) == name)
            for name in ("compute", "communication", "copy")
        }
        before = {
            "compute": [],
            "communication": of_class["compute"],
            "copy": merged([*of_class["compute"], *of_class["communication"]]),
        }
        for place, kinds in groups.items():
            everything = sum(total(members) or 0 for members in kinds.values())
            for (category, class_), members in kinds.items():
                spans = merged(when(row) for row in members)
                all_ns = length(spans)
                sum_ns = total(members) or 0
                both = sum(row["dur_ns"] for row in members if row["computes_and_communicates"])
                numbers = (len(members), sum_ns, part(sum_ns, everything), all_ns)
                open_ns = all_ns - shared(spans, before[class_])
                found.append((*trace, *place, category, class_, *numbers, open_ns, both))
    return sorted(
        found, key=lambda r: (*r[:2], last(r[2]), last(r[3]), last(r[4]), -r[8], r[5], r[6])
    )


def of_annotations(rows: Sequence[Row]) -> Answer:
    """Rows of the answer, where nothing was filtered out."""
    found = []
    for trace, rank in ranks(rows).items():
        of_host = [row for row in rank.rows.values() if row["kind"] == "annotation"]
        names = {row["name"] for row in of_host}
        of_device = [
            row
            for row in rank.rows.values()
            if row["kind"] == "device_annotation" and row["name"] not in names
        ]
        inside: Any = defaultdict(dict)
        outside = defaultdict(list)
        waits_for = callers(rank)
        for work in rank.work:
            launched = rank.launched_in(work)
            marks = [row for row in launched if row["kind"] == "annotation"]
            if launched and launched[-1]["thread"] in waits_for:
                caller, start = waits_for[launched[-1]["thread"]], launched[-1]["start_ns"]
                marks += [row for row in of_host if row["thread"] == caller and open_at(row, start)]
            marks += [row for row in of_device if on_its_stream(row, work)]
            for row in marks:
                inside[row["step"], row["name"]][work["event_id"]] = work
            if not marks:
                outside[work["step"]].append(work)
        for key, marks in by_key((*of_host, *of_device), "step", "name").items():
            placed = [row for row in marks if is_placed(row)]
            sums = rank.sums(list(inside[key].values())) if placed else (None,) * 6
            on_host = [row for row in marks if row["kind"] == "annotation"]
            lengths = [row["dur_ns"] for row in on_host if row["start_ns"] is not None]
            kept = [ns for ns in lengths if ns is not None]
            begun = [(row["start_ns"], row["event_id"], row["dur_ns"]) for row in on_host]
            firsts = [one[2] for one in sorted(one for one in begun if None not in one)]
            of_host_times = (percentile(kept, 50), max(kept, default=None), *(firsts or [None])[:1])
            number = (sums[0], len(inside[key]) - sums[0]) if placed else (None, None)
            times = (*number, *sums[1:3], *of_host_times, *sums[3:])
            found.append((*trace, *key, len(marks), host_time(marks), *times, first(marks)))
        if any(row["preorder"] is not None for row in of_host):
            for step, works in outside.items():
                sums = rank.sums(works)
                number = (sums[0], len(works) - sums[0])
                times = (*number, *sums[1:3], None, None, None, *sums[3:])
                found.append((*trace, step, None, None, None, *times, None))
    ordered = sorted(found, key=lambda row: (*in_order(row), last(row[4])))
    return [row[:-1] for row in ordered]


def callers(rank: Rank) -> dict[int, int]:
    """For each thread of autograd the thread that waits for it."""
    forwards: dict[int, set[int]] = defaultdict(set)
    for row in rank.rows.values():
        forward = rank.rows.get(row["fwd_id"])
        is_top = row["preorder"] is not None and row["parent_id"] is None
        if forward is not None and is_top and row["start_ns"] is not None:
            forwards[row["thread"]] |= {forward["thread"]} - {row["thread"]}
    return {thread: min(of) for thread, of in forwards.items() if len(of) == 1}


def open_at(row: Row, time: int) -> bool:
    """Whether a slice that nests was open then."""
    if row["preorder"] is None or row["start_ns"] is None or row["dur_ns"] is None:
        return False
    return bool(row["start_ns"] <= time < row["start_ns"] + row["dur_ns"])


def of_modules(rows: Sequence[Row]) -> Answer:
    """Rows of the answer, where nothing was filtered out."""
    found = []
    for trace, rank in ranks(rows).items():
        frames = [
            row
            for row in rank.rows.values()
            if row["kind"] == "python" and row["python_module_id"] is not None
        ]
        found += (
            [(*trace, *row) for row in _of_frames(rank, frames)]
            if frames
            else [(*trace, *row) for row in _of_paths(rank)]
        )
    ordered = sorted(found, key=lambda row: (*in_order(row), last(row[4])))
    return [row[:-1] for row in ordered]


def _of_frames(rank: Rank, frames: Sequence[Row]) -> Iterable[tuple[Any, ...]]:
    def key_of(row: Row) -> tuple[Any, ...]:
        return row["step"], row["name"], row["python_module_id"]

    ids = {row["event_id"] for row in frames}
    own, inside = _owned(rank, lambda row: [key_of(row)] if row["event_id"] in ids else [])
    for key, calls in by_key(frames, "step", "name", "python_module_id").items():
        yield (*key, len(calls), *_module(rank, calls, own[key], inside[key]))


def _of_paths(rank: Rank) -> Iterable[tuple[Any, ...]]:
    def keys_of(row: Row) -> list[tuple[Any, ...]]:
        if row["preorder"] is None:
            return []
        return [(row["step"], path, None) for path in paths(row["module_hierarchy"])]

    own, inside = _owned(rank, keys_of)
    ops = defaultdict(list)
    for row in rank.rows.values():
        for key in keys_of(row):
            ops[key].append(row)
    for key, members in ops.items():
        yield (*key, None, *_module(rank, members, own[key], inside[key]))


def _owned(rank: Rank, keys_of: Any) -> tuple[Any, Any]:
    """Self times on the host and devices by key, and the work inside each key by id."""
    own: Any = defaultdict(lambda: [0, 0])
    inside: Any = defaultdict(dict)
    for row in rank.rows.values():
        if row["preorder"] is None or not keys_of(row):
            continue
        around = next((keys_of(r)[-1] for r in rank.around(row)[1:] if keys_of(r)), None)
        own[keys_of(row)[-1]][0] += row["dur_ns"]
        if around is not None:
            own[around][0] -= row["dur_ns"]
    for work in rank.work:
        keys = [key for row in rank.launched_in(work) for key in reversed(keys_of(row))]
        if keys:
            own[keys[0]][1] += work["dur_ns"]
        for key in keys:
            inside[key][work["event_id"]] = work
    return own, inside


def _module(rank: Rank, members: Sequence[Row], own: Any, inside: Any) -> tuple[Any, ...]:
    """What comes after calls, and the first start."""
    host = host_time(members)
    if not any(is_placed(row) for row in members):
        return host, *(None,) * 8, first(members)
    kernels_, device, *others = rank.sums(list(inside.values()))
    return host, own[0], kernels_, device, own[1], *others, first(members)


def paths(hierarchy: str | None) -> list[str]:
    """Paths of the modules around an op, the outermost first."""
    words = [word.split("::")[0] for word in (hierarchy or "").split(".")]
    is_module = [w not in ("", "TOP()") and not w.startswith("SELF(") for w in words]
    kept = [word for word, is_one in zip(words, is_module, strict=True) if is_one]
    return [".".join(kept[: n + 1]) for n in range(len(kept))]


def by_key(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each combination of values."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[column] for column in columns)].append(row)
    return groups


def on_its_stream(mark: Row, work: Row) -> bool:
    """Whether work began within a range of a device."""
    if not is_placed(mark) or mark["device"] != work["device"] or mark["stream"] != work["stream"]:
        return False
    start, end = when(mark)
    return bool(start <= work["start_ns"] < end)


def is_placed(row: Row) -> bool:
    """Whether it is known what is in it."""
    on_device = row["device"] is not None and None not in (row["start_ns"], row["dur_ns"])
    return row["preorder"] is not None or (row["kind"] == "device_annotation" and on_device)


def host_time(rows: Iterable[Row]) -> int | None:
    """Time that host slices cover on each thread, added."""
    threads = defaultdict(list)
    for row in rows:
        if row["kind"] != "device_annotation" and None not in (row["start_ns"], row["dur_ns"]):
            threads[row["thread"]].append(when(row))
    return sum(map(length, threads.values())) if threads else None


def first(rows: Iterable[Row]) -> int | None:
    """First start."""
    return min((row["start_ns"] for row in rows if row["start_ns"] is not None), default=None)


def in_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Key of the order by run, rank, step (none first), first start, name."""
    run, rank, step, name = row[:4]
    return run, rank, step is not None, step or 0, last(row[-1]), last(name)
