"""The scanner in C, the reader without it and plain `json` say the same of many drawn documents.

By hand, on all cores; a set has 64 documents, and ``--seed`` repeats one::

    python -m tests.fuzz.three_readers --documents 100000

Each document is cut as a file is, what is broken is mended, and its pieces are read beside those
of the other documents of its set: planning a query takes longer than reading a small document. So
the rows of 64 documents are compared at once, as a reader hands them on: every column of the two
readers with each other, and what the documents say of it with plain `json`, arguments byte for
byte. What comes after that is the same code for both; of one document in `EVERY` all tables are
compared, of a whole load from a file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

import duckdb
import pyarrow as pa

import profframe
from profframe.native.library import library
from profframe.readers import bytes as reader_bytes
from profframe.readers.build.row_tables import Batch, RowTable
from profframe.readers.chrome import EVENTS_KEY, parsing, scanned
from profframe.readers.chrome.parsing import Parser
from profframe.readers.json import stream
from profframe.readers.json.exact import dumps
from profframe.readers.json.opening import NoArrayError
from profframe.readers.json.stream import ArrayReader, Parsed, Wave, blank
from profframe.readers.json.strings import is_unicode
from tests.fuzz.drawn_traces import Drawer, Drawn
from tests.oracles import chrome_rows as oracle
from tests.oracles.chrome import Members

SET: Final = 64
"""Documents that are read together."""
EVERY: Final = 100
"""Of so many documents one is loaded as a whole."""
SETS_OF_A_PROCESS: Final = 200
MOST_SHOWN: Final = 20
REASONS: Final = (
    "taken", "ODD_TEXT", "ODD_ESCAPE", "ODD_NUMBER", "ODD_VALUE", "ODD_MEMBER", "ODD_DOUBLED",
    "ODD_DEPTH", "ODD_ROOM",
)  # fmt: skip
"""Why the scanner hands a piece back: ``scan.h`` has the numbers."""
TABLES: Final = (
    "events",
    "memory",
    "flows",
    "counters",
    "instants",
    "threads",
    "traces",
    "quality",
)
Columns = Mapping[str, Sequence[object]]


@dataclass(slots=True)
class Report:
    """Numbers of documents, pieces and rows by class, and what differs."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of an array of events, and what plain `json` reads; None where it is not sound."""

    text: bytes
    events: list[Members] | None
    document: int
    is_mended: bool = False


@dataclass(slots=True)
class Cut:
    """A document in pieces: all that were tried, and those whose rows count, in order."""

    tried: list[Piece] = field(default_factory=list)
    counted: list[Piece] = field(default_factory=list)
    header: Mapping[str, Any] | None = None
    repairs: Counter[str] = field(default_factory=Counter)


def case(seed: int) -> None:
    """One set of documents."""
    report = compared(seed)
    assert not report.differences, "\n".join(report.differences[:MOST_SHOWN])


def compared(number: int, documents: int = SET, every: int = EVERY) -> Report:
    """Draw a set of documents, and compare what is read of them."""
    drawer, report = Drawer(number), Report()
    drawn = [drawer.document() for _ in range(documents)]
    size = drawer.rng.choice((200, 1000, 1 << 17, 1 << 17))
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(stream, "PIECE", size))
        patches.enter_context(mock.patch.object(stream, "WAVE", 8 * size))
        patches.enter_context(mock.patch.object(reader_bytes, "BLOCK", size + 36))
        cuts = [_cut(one, at, size) for at, one in enumerate(drawn)]
        for at, (one, cut) in enumerate(zip(drawn, cuts, strict=True)):
            where = f"set {number}, document {at}: "
            report.differences += (where + wrong for wrong in _around(one, cut, report.counts))
        for wrong in _of_pieces(
            [piece for cut in cuts for piece in cut.tried], cuts, report.counts
        ):
            report.differences.append(f"set {number}, {wrong}")
        for at, one in enumerate(drawn):
            if (number * documents + at) % every == 0:
                report.counts["loaded as a whole"] += 1
                where = f"set {number}, document {at}, loaded: "
                report.differences += (where + wrong for wrong in _of_loads(one.text))
    report.counts.update(documents=documents, bytes=sum(len(one.text) for one in drawn))
    return report


# ---- documents ----


def _cut(drawn: Drawn, number: int, size: int) -> Cut:
    """Its pieces as the reader cuts them, and those that it makes of what is broken."""
    cut = Cut()

    def parse(wave: Wave) -> Parsed[Piece]:
        runs: list[tuple[int, int, Piece | None]] = []
        for at, (begin, end) in enumerate(zip(wave.bounds, wave.bounds[1:], strict=False)):
            text = bytes(wave.text[begin:end])
            piece = Piece(text, sound_events(text), number)
            cut.tried.append(piece)
            if piece.events is None and runs and runs[-1][2] is None:
                runs[-1] = (runs[-1][0], at + 1, None)
            else:
                runs.append((at, at + 1, None if piece.events is None else piece))
        return Parsed(wave, runs)

    def parse_mended(text: bytes) -> Piece | None:
        piece = Piece(text, sound_events(text, is_mended=True), number, is_mended=True)
        if piece.events is None:
            return None
        if all(event.pairs for event in piece.events):  # an empty one is only read if it is mended
            cut.tried.append(piece)
        return piece

    blocks = (drawn.text[at : at + size + 36] for at in range(0, len(drawn.text), size + 36))
    reader = ArrayReader(blocks, EVENTS_KEY, parse, parse_mended, 1, mark=b'"ph"')
    try:
        cut.counted = [*reader.rows()]
    except NoArrayError:
        return cut
    cut.header, cut.repairs = reader.document.header, reader.document.repairs
    return cut


def sound_events(text: bytes, *, is_mended: bool = False) -> list[Members] | None:
    """Events of an array that needs no repair, by plain `json`; None of any other."""
    try:
        decoded = text.decode()
        events = oracle.DECODE(decoded)
    except (ValueError, RecursionError):
        return None
    for event in events:
        if not isinstance(event, Members) or not (event.pairs or is_mended):
            return None
        args = event.get("args")
        if len(event) < len(event.pairs) or (
            isinstance(args, Members) and len(args) < len(args.pairs)
        ):
            return None
    return events if is_unicode(decoded) else None


def _around(drawn: Drawn, cut: Cut, counts: Counter[str]) -> Iterator[str]:
    """What is wrong with the pieces of a document: its events, its header, what was mended."""
    counts.update(f"with {each}" for each in drawn.oddities)
    if drawn.damage:
        counts[f"damage: {drawn.damage}"] += 1
    document = _document(drawn.twin or drawn.text)
    if document is None:
        counts["not sound as a whole"] += 1
        return
    counts["mended like its twin" if drawn.twin else "sound as a whole"] += 1
    events, header = document
    if cut.header is None:
        yield "no trace"
        return
    ours = [event for piece in cut.counted for event in piece.events or ()]
    if ours != events:
        pairs = zip(ours, events, strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), (len(ours), len(events)))
        yield f"events: {first[0]}, plain json has {first[1]}"
    text = dumps(cut.header)
    if _decoded(text) != header:
        yield f"header: {text}, plain json has {header}"
    least, most = oracle.doubled(_decoded((drawn.twin or drawn.text).decode()), events)
    own = cut.repairs["doubled_member"]
    due = drawn.checks + Counter(doubled_member=min(max(least, own), most))
    if +cut.repairs != +due:
        yield f"quality: {+cut.repairs}, should be {+due}"


def _document(text: bytes) -> tuple[list[Members], Mapping[str, Any]] | None:
    """Events and header of a sound document, by plain `json`."""
    try:
        decoded = text.decode()
        document = oracle.DECODE(decoded)
    except (ValueError, RecursionError):
        return None
    if not is_unicode(decoded):
        return None
    header: dict[str, Any] = {}
    events = document
    if isinstance(document, Members):
        if [key for key, _ in document.pairs].count(EVENTS_KEY) != 1:
            return None
        header = {key: value for key, value in document.items() if key != EVENTS_KEY}
        events = document[EVENTS_KEY]
    if not isinstance(events, list) or not all(isinstance(e, Members) and e.pairs for e in events):
        return None
    return events, header


def _decoded(text: str) -> object:
    return oracle.DECODE(text)


# ---- pieces ----


def _of_pieces(pieces: Sequence[Piece], cuts: Sequence[Cut], counts: Counter[str]) -> Iterator[str]:
    """What the readers disagree on in pieces that are read together."""
    if not pieces:
        return
    wave = _wave(pieces)
    reasons = scanned._SCANNER.scan(wave.text, wave.bounds).odd.tolist()
    yield from _taken_unsound(pieces, reasons)
    _count(pieces, reasons, cuts, counts)
    sound = [pair for pair in zip(pieces, reasons, strict=True) if pair[0].events is not None]
    taken = [piece for piece, reason in sound if not reason]
    half = len(taken) // 2
    # What is handed back is read in few calls, and lies between what is not.
    ordered = [*taken[:half], *(piece for piece, reason in sound if reason), *taken[half:]]
    if not ordered:
        return
    native, refused = _rows(Parser().wave(_wave(ordered)))
    with mock.patch.object(parsing, "library", return_value=None):
        pure, also_refused = _rows(Parser().wave(_wave(ordered)))
    counts["pieces that DuckDB refuses"] += len(also_refused)
    if refused != also_refused:
        for at in sorted(refused ^ also_refused):
            who = "the scanner" if at in also_refused else "the pure reader"
            yield f"only {who} takes {ordered[at].text!r}"
        return
    events = [
        event
        for at, piece in enumerate(ordered)
        if at not in refused
        for event in piece.events or ()
    ]
    plain = oracle.rows(events)
    counts.update({f"rows of {table.lower()}": len(rows) for table, rows in plain.items()})
    for table in RowTable:
        rows = plain.get(table.name, [])
        columns, pure_columns = _columns(native.get(table)), _columns(pure.get(table))
        sizes = [len(next(iter(each.values()), ())) for each in (columns, pure_columns)]
        if sizes != [len(rows)] * 2:
            yield f"{table.name}: {sizes} rows, plain json has {len(rows)}"
            continue
        yield from _differing(table.name, columns, pure_columns)
        own = [{c: v for c, v in row.items() if c in pure_columns} for row in rows]
        yield from oracle.differences(table.name, pure_columns, own)


def _taken_unsound(pieces: Sequence[Piece], reasons: Sequence[int]) -> Iterator[str]:
    for piece, reason in zip(pieces, reasons, strict=True):
        if piece.events is None and not reason:
            yield f"document {piece.document}: the scanner takes {piece.text!r}"


def _count(
    pieces: Sequence[Piece], reasons: Sequence[int], cuts: Sequence[Cut], counts: Counter[str]
) -> None:
    """Count pieces by why they are handed back, and documents by how many of theirs are."""
    counts.update(f"pieces {REASONS[reason]}" for reason in reasons)
    of_document: dict[int, set[bool]] = {}
    for piece, reason in zip(pieces, reasons, strict=True):
        if not piece.is_mended:
            of_document.setdefault(piece.document, set()).add(bool(reason))
    for number in range(len(cuts)):
        is_odd = of_document.get(number, set())
        names = {(False,): "scanned whole", (True,): "handed back whole", (): "without pieces"}
        counts[names.get(tuple(sorted(is_odd)), "handed back in part")] += 1


def _wave(pieces: Iterable[Piece]) -> Wave:
    texts = [piece.text for piece in pieces]
    wave = Wave(blank(sum(map(len, texts)) + 2 * stream.PADDING), 0)
    for text in texts:
        wave.write(text[1:-1])
        wave.close()
    return wave


def _rows(parsed: Parsed[Batch]) -> tuple[dict[RowTable, pa.Table], set[int]]:
    """All rows of a wave, by table, and the pieces that need repair."""
    parts: dict[RowTable, list[pa.Table]] = {}
    refused: set[int] = set()
    for first, stop, rows in parsed.runs:
        if rows is None:
            refused.update(range(first, stop))
            continue
        for table, part in rows.items():
            parts.setdefault(table, []).append(part)
    return {
        table: pa.concat_tables(each, promote_options="default") for table, each in parts.items()
    }, refused


def _columns(rows: pa.Table | None) -> dict[str, list[object]]:
    """Columns that have any value, as Python lists; all lists of nothing are one."""
    if rows is None:
        return {}
    if not rows.num_rows:
        return {name: [] for name in rows.column_names}
    nothing: list[object] = [None] * rows.num_rows
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        text = pa.types.is_dictionary(column.type)
        is_empty = column.null_count == len(column)
        columns[name] = (
            nothing if is_empty else (column.cast(pa.string()) if text else column).to_pylist()
        )
    return columns


_FLAGS: Final = ("bad_time", "bad_dur", "rounded", "is_odd")
"""NULL says no, too."""


def _differing(table: str, one: Columns, other: Columns) -> Iterator[str]:
    """Columns of the two readers that differ."""
    for name in one.keys() | other.keys():
        nothing: list[object] = [None] * len(next(iter(one.values()), ()))
        left, right = one.get(name, nothing), other.get(name, nothing)
        if name in _FLAGS:
            left, right = ([bool(value) for value in values] for values in (left, right))
        if left == right:
            continue
        if len(left) != len(right):
            yield f"{table}: {len(left)} rows, without the scanner {len(right)}"
            break
        for at, pair in enumerate(zip(left, right, strict=True)):
            if repr(pair[0]) != repr(pair[1]):  # NaN is not equal to itself
                told = f"{pair[0]!r}, without the scanner {pair[1]!r}"
                args = one["args"][at] if "args" in one else None
                yield f"{table}.{name}, row {at}: {told}; arguments {args}"
                break


# ---- loads ----


def _of_loads(text: bytes) -> Iterator[str]:
    """How tables of a load differ from those of a load without the scanner."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        path.write_bytes(text)
        native = _loaded(path)
        with mock.patch.object(parsing, "library", return_value=None):
            pure = _loaded(path)
    if isinstance(native, str) or isinstance(pure, str):
        if native != pure:
            yield f"{native}, without the scanner {pure}"
        return
    for name, table in native.items():
        yield from _differing(name, _columns(table), _columns(pure[name]))


def _loaded(path: Path) -> dict[str, pa.Table] | str:
    """All tables of a load, or the error."""
    try:
        with profframe.load(path).session() as trace:
            return {name: getattr(trace, name).to_arrow() for name in TABLES}
    except profframe.ProfframeError as error:
        return f"{type(error).__name__}: {error}"


# ---- many ----


def many(documents: int, first: int, jobs: int) -> Report:
    """Compare many documents in processes, and show at a terminal how far they are."""
    total, began = Report(), time.monotonic()
    last, in_turn = first + -(-documents // SET), jobs * SETS_OF_A_PROCESS
    for begin in range(first, last, in_turn):  # with processes of its own, as memory is not freed
        sets = range(begin, min(begin + in_turn, last))
        for report in _each(sets, jobs):
            total.counts += report.counts
            total.differences += report.differences
            _show(total, documents, time.monotonic() - began)
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return total


def _each(sets: Sequence[int], jobs: int) -> Iterator[Report]:
    """What is said of each set of documents."""
    left = {*sets}
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(compared, number): number for number in sets}
        for future in as_completed(futures):
            number = futures[future]
            try:
                yield future.result()
            except BrokenProcessPool:
                yield Report(differences=[f"a process died; not compared: sets {sorted(left)}"])
                return
            except Exception as error:  # noqa: BLE001 - it is of one set
                yield Report(differences=[f"set {number}: {type(error).__name__}: {error}"])
            left.discard(number)


def _show(total: Report, documents: int, seconds: float) -> None:
    if sys.stderr.isatty():
        done, wrong = total.counts["documents"], len(total.differences)
        sys.stderr.write(
            f"\r{done:,} of {documents:,} documents, {wrong} differences, {seconds:,.0f} s"
        )
        sys.stderr.flush()


def main() -> None:
    """Compare documents by hand, and say what they were."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.three_readers")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the first set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if library() is None:
        raise SystemExit("the native scanner is not built here: pip install -e . builds it")
    began = time.monotonic()
    total = many(given.documents, given.seed, given.jobs)
    for name, count in sorted(total.counts.items()):
        sys.stdout.write(f"{count:>12,}  {name}\n")
    for wrong in total.differences[:MOST_SHOWN]:
        sys.stdout.write(f"{wrong}\n")
    seconds, children = time.monotonic() - began, os.times()
    used = children.children_user + children.children_system
    sys.stdout.write(
        f"DuckDB {duckdb.__version__}: {total.counts['documents']:,} documents, "
        f"{len(total.differences):,} differences, {seconds:,.0f} s, "
        f"{used:,.0f} s of processor time\n"
    )
    sys.exit(bool(total.differences))


if __name__ == "__main__":
    main()
