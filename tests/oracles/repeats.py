"""Blocks that repeat within a sequence, found by trying every place and length."""

from __future__ import annotations

from collections.abc import Sequence

Numbers = list[int]


def blocks(codes: Sequence[int]) -> tuple[Numbers, Numbers]:
    """Numbers of the block and of the layer of each member; -1 in none."""
    count = len(codes)
    left: list[object] = list(codes)
    owner: dict[int, tuple[int, int]] = {}
    for number in range(4):
        best = best_run(left)
        if best is None:
            break
        period, start = best
        places = [
            i
            for i in range(count - period + 1)
            if left[i : i + period] == left[start : start + period]
        ]
        copies = [i for n, i in enumerate(places) if n == 0 or i - places[n - 1] >= period]
        for copy in copies:
            for i in range(copy, copy + period):
                owner[i] = (number, copy)
        for copy in copies:
            for i in range(copy, copy + period):
                left[i] = ("taken", i)
    order: Numbers = []
    layers: Numbers = []
    for i in range(count):
        if i in owner:
            round_, copy = owner[i]
            order += [round_] if round_ not in order else []
            layers += [copy] if copy not in layers else []
    return (
        [order.index(owner[i][0]) if i in owner else -1 for i in range(count)],
        [layers.index(owner[i][1]) if i in owner else -1 for i in range(count)],
    )


def best_run(codes: Sequence[object]) -> tuple[int, int] | None:
    """Length and start of the block whose repetitions in a row cover most."""
    count = len(codes)
    runs = []
    for period in range(2, count // 3 + 1):
        for start in range(count - 3 * period + 1):
            end = start + period
            while end < count and codes[end] == codes[end - period]:
                end += 1
            times = (end - start) // period
            is_first = start == 0 or codes[start - 1] != codes[start - 1 + period]
            is_one_name = len({str(code) for code in codes[start : start + period]}) == 1
            if times >= 3 and is_first and not is_one_name and times * period * 50 >= count:
                runs.append((-times * period, period, start))
    return min(runs)[1:] if runs else None
