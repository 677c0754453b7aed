"""torch's own table: the text of ``key_averages().table()``.

Times are exact fractions and rounded once, half to even; with ``compat="torch"`` they are floats,
added in torch's order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from profframe.analysis.torch_table.table_rows import Amount, Row, TraceRows
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import integer
from profframe.show.units import visible

_GAP: Final = "  "
_WIDTH: Final = 12
_SHAPES_WIDTH: Final = 80
_UNITS: Final = MappingProxyType({"s": 1_000_000, "ms": 1_000, "us": 1})
_FLOPS: Final = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_BYTES: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_TOP_LEVEL: Final = "This report only display top-level ops statistics"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of the table; the names are torch's."""

    sort_by: str | None = None
    row_limit: int = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None
    group_by_input_shape: bool = False
    group_by_stack_n: int = 0
    group_by_overload_name: bool = False
    include_python_functions: bool | None = None
    as_torch: bool = False

    @property
    def grouping(self) -> dict[str, object]:
        """The options of `key_averages`."""
        names = ("group_by_input_shape", "group_by_stack_n", "group_by_overload_name")
        return {name: getattr(self, name) for name in names}

    def __post_init__(self) -> None:
        """Raise an error for values that torch would fail on, or misread."""
        frames = self.include_python_functions
        if frames is not None and not isinstance(frames, bool):
            raise ParameterError(
                f"include_python_functions: needs True, False or None, got {frames!r}"
            )
        for name in ("row_limit", "group_by_stack_n"):
            integer(name, getattr(self, name))
        for name in ("max_src_column_width", "max_name_column_width"):
            width = getattr(self, name)
            if width is not None and integer(name, width) < 0:
                raise ParameterError(f"{name}: needs a width of at least 0, got {width}")
        for name in ("top_level_events_only", "group_by_input_shape", "group_by_overload_name"):
            flag = getattr(self, name)
            if not isinstance(flag, bool):
                raise ParameterError(f"{name}: needs True or False, got {flag!r}")
        for name in ("sort_by", "header", "time_unit"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise ParameterError(f"{name}: needs text, got {text!r}")
        if self.time_unit is not None and self.time_unit not in _UNITS:
            raise UnknownNameError.among("time unit", self.time_unit, _UNITS)
        if self.sort_by is not None and _attribute(self.sort_by) not in _ATTRIBUTES:
            choices = {*_ATTRIBUTES, *(n.replace("device", "cuda") for n in _ATTRIBUTES)}
            raise UnknownNameError.among("sort key", self.sort_by, choices)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column: its header, cells and width."""

    header: str
    cell: Callable[[Row], str]
    width: int = _WIDTH
    to_left: bool = False

    def padded(self, text: str) -> str:
        """The text in the column's width."""
        return (text.ljust if self.to_left else text.rjust)(self.width)


def text(pages: Sequence[TraceRows], options: TableOptions) -> str:
    """The table of each trace, in the order of run and rank.

    Control bytes are escapes, except as torch prints them.
    """
    pages = [_printable(page, options) for page in pages]
    if len(pages) <= 1:
        return "".join(_page(page, options.header, options) for page in pages)
    tables = []
    for page in pages:
        place = f"run {visible(page.run)}, rank {page.rank}"
        header = place if options.header is None else f"{place}, {options.header}"
        tables.append(_page(page, header, options))
    return "\n".join(tables)


def _printable(page: TraceRows, options: TableOptions) -> TraceRows:
    """The page with control bytes written as escapes."""
    page = replace(page, device=visible(page.device))
    return page if options.as_torch else replace(page, rows=[_visible(row) for row in page.rows])


def _visible(row: Row) -> Row:
    return replace(
        row,
        key=visible(row.key),
        overload_name=visible(row.overload_name),
        input_shapes=visible(row.input_shapes),
        stack=tuple(map(visible, row.stack)),
    )


# From rows to lines.


def _page(page: TraceRows, header: str | None, options: TableOptions) -> str:
    rows = page.rows
    if options.sort_by is not None:
        rows = sorted(rows, key=_ATTRIBUTES[_attribute(options.sort_by)], reverse=True)
    host = _total(row.self_cpu_time_total for row in rows)
    device = _total(row.self_device_time_total for row in rows if _counts_on_device(row))
    columns = _columns(page, host, device, options)
    rule = "".join("-" * column.width + _GAP for column in columns)
    double_rule = "=" * (len(rule) - len(_GAP))
    lines = [
        *([double_rule, header] if header is not None else []),
        *([double_rule, _TOP_LEVEL] if options.top_level_events_only else []),
        rule,
        _line(columns, [column.header for column in columns]),
        rule,
    ]
    has_stack = any(row.stack for row in rows)
    source_width = _source_width(rows, options)
    blanks = [""] * (len(columns) - 1)
    for row in _limited(rows, options):
        lines.append(_line(columns, [column.cell(row) for column in columns]))
        if has_stack:
            frames = [*(_tail(frame, source_width) for frame in row.stack[1:]), ""]
            lines += [_line(columns, [*blanks, frame]) for frame in frames]
    time = _time(options)
    lines += [rule, f"Self CPU time total: {time(host)}"]
    if page.has_device_time:
        lines.append(f"Self {page.device.upper()} time total: {time(device)}")
    return "".join(f"{line}\n" for line in lines)


def _line(columns: Iterable[TextColumn], cells: Iterable[str]) -> str:
    return "".join(column.padded(cell) + _GAP for column, cell in zip(columns, cells, strict=True))


def _limited(rows: Iterable[Row], options: TableOptions) -> Iterable[Row]:
    candidates = (row for row in rows if not (options.top_level_events_only and row.has_parent))
    return islice(candidates, options.row_limit) if options.row_limit >= 0 else candidates


def _counts_on_device(row: Row) -> bool:
    """A device region spans work that counts already; before Kineto an op contained its kernel."""
    return not row.is_user_annotation if row.is_device else row.is_legacy


def _total(values: Iterable[Amount]) -> Amount:
    """Their sum in order; ``sum()`` would add floats more precisely than torch does."""
    total: Amount = Fraction(0)
    for value in values:
        total += value
    return total


# Columns.


def _columns(
    page: TraceRows, host: Amount, device: Amount, options: TableOptions
) -> list[TextColumn]:
    rows = page.rows
    time = _time(options)
    name_width = _width((row.key for row in rows), options.max_name_column_width)

    def shortened(name: str) -> str:
        limit = options.max_name_column_width
        if limit is None or len(name) < limit - 3:
            return name
        return name[: limit - 3] + "..."

    columns = [TextColumn("Name", lambda row: shortened(row.key), name_width)]
    if any(row.overload_name for row in rows):
        columns.append(
            TextColumn("Overload Name", lambda row: shortened(row.overload_name), name_width)
        )
    columns += [
        TextColumn("Self CPU %", lambda row: _share(row.self_cpu_time_total, host)),
        TextColumn("Self CPU", lambda row: time(row.self_cpu_time_total)),
        TextColumn(
            "CPU total %", lambda row: "0" if row.is_async else _share(row.cpu_time_total, host)
        ),
        TextColumn("CPU total", lambda row: time(row.cpu_time_total)),
        TextColumn("CPU time avg", lambda row: time(row.cpu_time)),
    ]
    name = page.device.upper()
    if page.has_device_time:
        columns += [
            TextColumn(f"Self {name}", lambda row: time(row.self_device_time_total)),
            TextColumn(f"Self {name} %", lambda row: _share(row.self_device_time_total, device)),
            TextColumn(f"{name} total", lambda row: time(row.device_time_total)),
            TextColumn(f"{name} time avg", lambda row: time(row.device_time)),
        ]
    if page.has_memory:
        columns += [
            TextColumn("CPU Mem", lambda row: _memory(row.cpu_memory_usage)),
            TextColumn("Self CPU Mem", lambda row: _memory(row.self_cpu_memory_usage)),
        ]
        if name and any(row.self_device_memory_usage > 0 for row in rows):
            columns += [
                TextColumn(f"{name} Mem", lambda row: _memory(row.device_memory_usage)),
                TextColumn(f"Self {name} Mem", lambda row: _memory(row.self_device_memory_usage)),
            ]
    columns.append(TextColumn("# of Calls", lambda row: str(row.count)))
    if any(row.node_id != -1 for row in rows):
        columns.append(TextColumn("Node ID", lambda row: str(row.node_id)))
    if any(row.input_shapes not in {"", "[]"} for row in rows):
        width = _width((row.input_shapes for row in rows), _SHAPES_WIDTH)
        columns.append(TextColumn("Input Shapes", lambda row: row.input_shapes[:width], width))
    return columns + _last_columns(page.rows, options)


def _last_columns(rows: Sequence[Row], options: TableOptions) -> list[TextColumn]:
    """FLOPs and source; the source is last because further frames of a stack are listed below it.

    torch swaps the two headers, so that each value is in the other's column.
    """
    flop_counts = [row.flops for row in rows if row.flops > 0]
    power = _power(min(flop_counts), options) if flop_counts else 0
    scale = pow(10, power * -3.0) if options.as_torch else Fraction(1, 1000**power)

    def flops(row: Row) -> str:
        return _decimal(row.flops * scale, 3).rjust(8) if row.flops > 0 else "--"

    def source(row: Row) -> str:
        return _tail(row.stack[0], width) if row.stack else ""

    width = _source_width(rows, options)
    columns = []
    if flop_counts:
        columns.append(TextColumn(f"Total {_FLOPS[power]}", flops))
    if any(row.stack for row in rows):
        columns.append(TextColumn("Source Location", source, width, to_left=True))
    if options.as_torch and len(columns) == 2:
        first, last = columns
        return [replace(last, cell=first.cell), replace(first, cell=last.cell)]
    return columns


def _width(texts: Iterable[str], widest: int | None) -> int:
    width = max(map(len, texts), default=0) + 4
    return width if widest is None else min(width, widest)


def _source_width(rows: Iterable[Row], options: TableOptions) -> int:
    frames = (frame for row in rows for frame in row.stack)
    return _width(frames, options.max_src_column_width)


def _tail(frame: str, width: int) -> str:
    """The end of a frame, which has the line and the function."""
    if len(frame) <= width:
        return frame
    end = frame[len(frame) - width :]
    return "..." + end[3:] if len(end) > 3 else end


# Cells.


def _decimal(value: Amount, places: int) -> str:
    """The number with this many decimals, rounded half to even if it is exact."""
    if isinstance(value, float):
        return f"{value:.{places}f}"
    integer, fraction = divmod(abs(round(value * 10**places)), 10**places)
    return f"{'-' if value < 0 else ''}{integer}.{fraction:0{places}}"


def _in_unit(us: Amount, unit: str) -> str:
    return _decimal(us / _UNITS[unit], 3) + unit


def _in_nearest_unit(us: Amount) -> str:
    return _in_unit(us, next((unit for unit, size in _UNITS.items() if us >= size), "us"))


def _time(options: TableOptions) -> Callable[[Amount], str]:
    unit = options.time_unit
    return _in_nearest_unit if unit is None else lambda us: _in_unit(us, unit)


def _share(part: Amount, total: Amount) -> str:
    return f"{_decimal(part * 100 / total, 2)}%" if total else "NaN"


def _memory(number: int) -> str:
    for size, unit in _BYTES:
        if abs(number) >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number} B"


def _power(fewest: int, options: TableOptions) -> int:
    """Power of 1000 at which the fewest FLOPs have a digit before the point; torch uses the log."""
    digits = math.log10(fewest) / 3 if options.as_torch else (len(str(fewest)) - 1) // 3
    return math.floor(min(digits, len(_FLOPS) - 1))


# Order.


def _attribute(name: str) -> str:
    """The attribute of any device, by torch's name for one."""
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    return name


def _comparable(shapes: str) -> object:
    """A sort key in the order of Python's lists, also for values that are not lists."""

    def sort_key(value: object) -> tuple[int, object]:
        if isinstance(value, list):
            return 1, [sort_key(part) for part in value]
        return (0, value) if isinstance(value, int) else (2, str(value))

    try:
        return sort_key(json.loads(shapes or "[]"))
    except (ValueError, RecursionError):
        return 2, shapes


def _text_of(attribute: str) -> Callable[[Row], str]:
    return lambda row: _in_nearest_unit(getattr(row, attribute))


_TIMES: Final = (
    "cpu_time", "device_time", "cpu_time_total", "device_time_total", "self_cpu_time_total",
    "self_device_time_total",
)  # fmt: skip
_ATTRIBUTES: Final[Mapping[str, Callable[[Row], Any]]] = MappingProxyType(
    {
        name: attrgetter(name)
        for name in (
            *_TIMES, "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
            "self_device_memory_usage", "count", "key", "flops", "node_id", "scope", "is_async",
            "is_remote", "is_legacy", "is_user_annotation", "overload_name", "stack",
        )
    }
    | {f"{name}_str": _text_of(name) for name in _TIMES}
    | {"input_shapes": lambda row: _comparable(row.input_shapes)}
)  # fmt: skip
"""Sort keys of rows."""
