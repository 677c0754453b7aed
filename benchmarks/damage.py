"""What damage in every event costs: time per event, and how it grows with their number.

::

    python benchmarks/damage.py           # ten minutes
    python benchmarks/damage.py --small   # does it run? few shapes and events, figures mean nothing

Each shape of damage is a trace of its own, read in two sizes that take turns. Figures are medians
of the processor's time per event.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from profframe.readers.reading import read

SIZES: Final = (10_000, 80_000)
SMALL: Final = (200, 400)
TARGET: Final = 1.5
"""Time per event of the large trace by that of the small one, at most."""

_HEAD: Final = '{"ph":"X","cat":"cpu_op","name":"aten::add_","pid":1,"tid":2,"ts":%d,"dur":2,'
_DEEP: Final = 1500
SHAPES: Final = {
    "sound": _HEAD + '"args":{"External id":5,"k":"v"}}',
    "NaN": _HEAD + '"args":{"bw":NaN,"cfg":"{\\"x\\": \\"}]\\"}"}}',
    "infinity in lower case": _HEAD + '"args":{"bw":-inf,"k":"v"}}',
    "hexadecimal": _HEAD + '"args":{"stream":0x1f,"k":"v"}}',
    "odd number": _HEAD + '"args":{"a":+1,"b":007,"c":.5}}',
    "bare word": _HEAD + '"args":{"bandwidth":N/A,"k":"v"}}',
    "missing value": _HEAD + '"args":{"a":,"k":"v"}}',
    "missing colon": _HEAD + '"args":{"a" 1,"k":"v"}}',
    "missing key": _HEAD + '"args":{:1,"k":"v"}}',
    "commas too many": _HEAD + '"args":{"a":1,,"k":"v"}},',
    "comma missing": _HEAD + '"args":{"a":"x" "k":"v"}}',
    "control byte": _HEAD + '"args":{"a":"two\nlines \\"x\\"","k":"v"}}',
    "invalid UTF-8": _HEAD + '"args":{"a":"caf\udce9","k":"v"}}',
    "lone surrogate": _HEAD + '"args":{"a":"\\ud83d \\\\ud83d","k":"v"}}',
    "raw quotes": _HEAD + '"args":{"a":"f("x", "y") said "hi"","k":"v"}}',
    "raw backslashes": _HEAD + '"args":{"a":"C:\\Users\\me\\run.py","k":"v"}}',
    "raw backslash at the end": _HEAD + '"args":{"a":"C:\\Users\\me\\","k":"v"}}',
    "member doubled": _HEAD + '"dur":3,"args":{"k":"v"}}',
    "arguments doubled": _HEAD + '"args":{"a":1},"args":{"k":"v"}}',
    "string not closed": _HEAD + '"args":{"a":"x,"k":"v"}}',
    "strings not closed": '{"ph":"X,"name":"op,"ts":%d,"dur":2}',
    "string of the last member not closed": _HEAD + '"args":{"a":5},"id":"x}',
    "object not closed": _HEAD + '"args":{"k":"v"}',
    "objects not closed": _HEAD + '"args":{"a":{"k":"v"',
    "array not closed": _HEAD + '"args":{"a":[1,2}}',
    "cut in an array": _HEAD + '"args":{"a":[1',
    "cut behind a key": _HEAD + '"args":',
    "cut in a text": _HEAD + '"args":{"a":"x',
    "object not opened": _HEAD[1:] + '"args":{"k":"v"}}',
    "brackets too many": _HEAD + '"args":{"k":"v"}}}]',
    "array in an array": "[" + _HEAD + '"args":{"k":"v"}}',
    "no event": _HEAD + '"args":{"k":"v"}},5,"text",null,[1]',
    "too deep": _HEAD + f'"args":{{"k":{"[" * _DEEP}{"]" * _DEEP}}}}}',
    "too deep and broken": _HEAD + f'"args":{{"k":{"[" * _DEEP}NaN{"]" * _DEEP}}}}}',
    "a hundred deep and broken": _HEAD + f'"args":{{"k":{"[" * 90}NaN{"]" * 90}}}}}',
    "too deep and not closed": _HEAD + f'"args":{{"k":{"[" * _DEEP}}}}}',
    "control byte in a long text": _HEAD + f'"args":{{"a":"{"x" * 400}\n{"y" * 400}"}}}}',
    "many raw quotes": _HEAD + f'"args":{{"a":"{"say " + chr(34) + "hi" + chr(34) + " "}"}}}}',
    "dots and digits": _HEAD + f'"args":{{"a":{"1." * 40}}}}}',
    "commas and brackets": _HEAD + '"args":{"k":"v"}} ] ] } , , ',
}  # fmt: skip
"""Text of an event, with a place for its time."""


def write(path: Path, shape: str, events: int) -> None:
    """A trace of so many events of one shape, among which a few are sound."""
    lines = [SHAPES[shape] % time for time in range(events)]
    lines[:: events // 4] = [SHAPES["sound"] % 0] * len(lines[:: events // 4])
    text = '{"traceEvents":[\n' + ",\n".join(lines) + "\n]}"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def seconds(path: Path) -> float:
    """Processor's time to read a trace, of all threads together."""
    begin = time.process_time()
    read(path)
    return time.process_time() - begin


def rows(
    shapes: list[str], sizes: tuple[int, int], rounds: int
) -> Iterator[tuple[str, float, float]]:
    """Medians of the time per event, of the small trace and of the large one."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{size}.json" for size in sizes]
        for shape in shapes:
            for path, size in zip(paths, sizes, strict=True):
                write(path, shape, size)
            turns = [[seconds(path) for path in paths] for _ in range(rounds)]
            small, large = (
                statistics.median(times) / size
                for times, size in zip(zip(*turns, strict=True), sizes, strict=True)
            )
            yield shape, small, large


def main() -> None:
    """Print a line as soon as its shape is measured."""
    parser = argparse.ArgumentParser(description="Benchmark of mending.")
    parser.add_argument("--small", action="store_true", help="a few tiny traces, no targets")
    parser.add_argument("-n", type=int, default=3, help="repetitions of each measurement")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help="default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.shapes) - SHAPES.keys():
        parser.error(f"no such shape: {', '.join(sorted(unknown))}")

    sizes = SMALL if arguments.small else SIZES
    print(f"microseconds per event, medians of {arguments.n}; {sizes[0]:,} and {sizes[1]:,} events")
    shapes = list(SHAPES)[: 4 if arguments.small else None]
    for shape, small, large in rows(arguments.shapes or shapes, sizes, arguments.n):
        ratio = large / small
        judged = "" if arguments.small else "met" if ratio <= TARGET else "MISSED"
        figures = f"{1e6 * small:8.1f}  {1e6 * large:8.1f}  {ratio:5.2f}x"
        print(f"{figures}  {judged:6}  {shape}", flush=True)


if __name__ == "__main__":
    main()
