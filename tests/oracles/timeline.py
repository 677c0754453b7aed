"""The columns of a timeline read back one by one, as the script of a page does it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from profframe.pages.timeline.page_budget import TimelineDocument

Number = int | None


def slices(document: TimelineDocument) -> list[dict[str, Any]]:
    """Every slice: its place on the page, and all columns; other slices by their `event_id`."""
    head, columns = document.head, {name: [*of] for name, of in numbers(document)}
    rows: list[dict[str, Any]] = []
    for lane_number, lane in enumerate(head["lanes"]):
        above: list[int] = []
        for row_number, count in enumerate(lane["rows"]):
            line, end = [], 0
            for _ in range(count):
                place = len(rows)
                begin = end + _of(columns, "gap", place)
                end = begin + (columns["dur"][place] or 0)
                started = [one for one in above if rows[one]["begin"] <= begin]
                nests = lane["sort"] == "host" and started
                what = _of(columns, "what", place)
                rows.append(
                    {
                        "trace": lane["trace"],
                        "lane": lane_number,
                        "row": row_number,
                        "begin": begin,
                        "end": end,
                        "dur": columns["dur"][place],
                        "name": head["names"][what],
                        "kind": head["kinds"][what],
                        "category": head["categories"][what],
                        "parent": _of(columns, "parent", place) + (started[-1] if nests else -1),
                    }
                )
                line.append(place)
            above = line
    _complete(rows, columns, head)
    return rows


def _of(columns: Mapping[str, list[Number]], name: str, place: int) -> int:
    value = columns[name][place]
    assert value is not None
    return value


def _complete(
    rows: list[dict[str, Any]], columns: Mapping[str, list[Number]], head: Mapping[str, Any]
) -> None:
    """Add what other slices are needed for."""
    inside = [0] * len(rows)
    for row in rows:
        if row["parent"] >= 0:
            inside[row["parent"]] += row["end"] - row["begin"]
    summed = {name: [*sums(columns[name])] for name in ("event", "launch", "step")}
    for place, row in enumerate(rows):
        launch, op = summed["launch"][place], columns["op"][place]
        around = 0 if launch is None else rows[launch]["parent"]
        beyond, dims = columns["self"][place], columns["dims"][place]
        own = row["end"] - row["begin"] - inside[place]
        row |= {
            "event_id": summed["event"][place],
            "step": summed["step"][place],
            "self": None if beyond is None else beyond + own,
            "launch": launch,
            "op": None if op is None else op + around,
            "dims": None if dims is None else head["dims"][dims],
        }
    for row in rows:
        for name in ("parent", "launch", "op"):
            place = row[name]
            row[name] = None if place is None or place < 0 else rows[place]["event_id"]


def sums(values: list[Number]) -> Iterator[Number]:
    """The sum of all values up to each; None where there is none."""
    total = 0
    for value in values:
        if value is None:
            yield None
        else:
            total += value
            yield total


def numbers(document: TimelineDocument) -> Iterator[tuple[str, Iterator[Number]]]:
    """The names and the values of all columns."""
    at = 0
    for head in document.head["columns"]:
        body = zlib.decompress(document.body[at : at + head["bytes"]])
        at += head["bytes"]
        yield head["name"], _values(body, head)
    assert at == len(document.body)


def _values(body: bytes, head: Mapping[str, Any]) -> Iterator[Number]:
    size, width = head["values"], head["width"]
    assert len(body) == size * (width + head["missing"])
    for place in range(size):
        value = sum(body[plane * size + place] << 8 * plane for plane in range(width))
        if head["signed"]:
            value = -(value + 1) // 2 if value % 2 else value // 2
        yield None if head["missing"] and body[width * size + place] else value
