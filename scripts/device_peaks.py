"""Measure what a device reaches, and write that as an entry for ``devices=``.

::

    python scripts/device_peaks.py -o mine.json            # the accelerator of this machine
    python scripts/device_peaks.py --device cuda:1 --dtypes bf16,fp8 --sizes 8192

Matrices are multiplied in each data type and size, and a buffer is copied. The best of several
repeats counts: 2·m·n·k FLOPs of a product, and the bytes read and written of a copy, over its time.
Times are those between two events of the device, or the host's on the CPU. ``fp8`` has a scale for
each matrix, ``int8`` sums in int32. ``fp4`` is not measured: its scales have a layout for each
device. Without ``-o`` the entry is written to the standard output; what is being done is on the
standard error, if that is a terminal.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

DTYPES: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
SIZES: Final = (2048, 4096, 8192, 16384)
CPU_SIZES: Final = (512, 1024)
COPY_MIB: Final = 1024
REPEATS: Final = 10
LEAST_NS: Final = 20_000_000
"""Calls are repeated until they take that long, so that a launch counts little."""
MOST_CALLS: Final = 200
_CPU: Final = "the CPU is only for trying this out, traces list none among their devices"
_ALIGNED: Final = 16
"""Products of small types take only multiples of it."""
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
)

Call = Callable[[], object]
Show = Callable[[str], None]


class MeasuringError(Exception):
    """What cannot be measured, in one line."""


class Clock(Protocol):
    """How long work takes."""

    def elapsed_ns(self, call: Call, calls: int) -> float:
        """Time of so many calls, from the first one's start to the last one's end."""


class HostClock:
    """The host's clock, for a device whose calls end with their work."""

    def elapsed_ns(self, call: Call, calls: int) -> float:
        """Time of so many calls."""
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return time.perf_counter_ns() - begin


class EventClock:
    """The device's clock: two events around the calls."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    def elapsed_ns(self, call: Call, calls: int) -> float:
        """Time of so many calls."""
        begin, end = (self._runtime.Event(enable_timing=True) for _ in range(2))
        self._runtime.synchronize()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        self._runtime.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return milliseconds * 1e6


@dataclass(frozen=True, slots=True)
class Best:
    """The best time of some work: FLOPs of a product, or bytes of a copy."""

    size: int
    amount: int
    ns: float

    @property
    def per_s(self) -> float:
        """FLOP/s or bytes/s."""
        return self.amount * 1e9 / self.ns


def product_flop(m: int, n: int, k: int) -> int:
    """FLOPs of a product of m by k and k by n: a multiplication and an addition each.

    >>> product_flop(2, 3, 4)
    48
    """
    return 2 * m * n * k


def copy_bytes(size: int) -> int:
    """Bytes that a copy of so many moves: each is read and written.

    >>> copy_bytes(10)
    20
    """
    return 2 * size


def best_ns(call: Call, clock: Clock, repeats: int) -> float:
    """The least time of a call; a first one, in which kernels are chosen, does not count."""
    clock.elapsed_ns(call, 1)
    once = max(clock.elapsed_ns(call, 1), 1.0)
    calls = max(1, min(MOST_CALLS, math.ceil(LEAST_NS / once)))
    least = min(clock.elapsed_ns(call, calls) for _ in range(repeats)) / calls
    if least <= 0:
        raise MeasuringError("its clock stands still")
    return least


@dataclass(frozen=True, slots=True)
class Device:
    """A device of torch: its name and sizes, its clock, and work for it."""

    torch: Any
    where: Any
    name: str
    clock: Clock
    memory_bytes: int | None = None
    cache_bytes: int | None = None
    fp8: str = "float8_e4m3fn"

    def product(self, dtype: str, size: int) -> Call:
        """A product of two square matrices."""
        torch = self.torch
        if dtype == "fp8":
            left, right = (self._random(size).to(getattr(torch, self.fp8)) for _ in range(2))
            one = torch.ones((), device=self.where)
            return lambda: torch._scaled_mm(  # noqa: SLF001  # torch has no public one
                left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
            )
        if dtype == "int8":
            whole = [
                torch.randint(-100, 100, (size, size), dtype=torch.int8, device=self.where)
                for _ in range(2)
            ]
            return lambda: torch._int_mm(whole[0], whole[1].t())  # noqa: SLF001  # the same
        kind = getattr(torch, _NAMES[dtype])
        left, right = (self._random(size).to(kind) for _ in range(2))
        into = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=into)

    def copy(self, size: int) -> Call:
        """A copy of so many bytes."""
        source = self.torch.ones(size, dtype=self.torch.uint8, device=self.where)
        into = self.torch.zeros_like(source)
        return lambda: into.copy_(source)

    def _random(self, size: int) -> Any:
        return self.torch.randn((size, size), device=self.where)


def open_device(torch: Any, wanted: str | None) -> Device:
    """The named device, or the machine's accelerator."""
    if wanted is None:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None:
            raise MeasuringError(
                f"no accelerator: torch {torch.__version__} has none; or --device cpu"
            )
        wanted = str(accelerator)
    try:
        where = torch.device(wanted)
    except RuntimeError:
        raise MeasuringError(
            f"no device {wanted!r}: it is written as cuda, cuda:1, xpu or cpu"
        ) from None
    if where.type == "cpu":
        return Device(torch, where, "CPU", HostClock())
    runtime = getattr(torch, where.type, None)
    count = runtime.device_count() if runtime is not None and runtime.is_available() else 0
    index = where.index or 0
    if runtime is None or index >= count:
        raise MeasuringError(
            f"no device {wanted!r}: torch {torch.__version__} has {count} of type {where.type}"
        )
    where = torch.device(where.type, index)
    if hasattr(runtime, "set_device"):
        runtime.set_device(where)
    properties = _ask(runtime, "get_device_properties", index)
    is_fnuz = getattr(properties, "gcnArchName", "").startswith("gfx94")
    return Device(
        torch,
        where,
        _ask(runtime, "get_device_name", index) or where.type,
        EventClock(runtime),
        getattr(properties, "total_memory", None),
        getattr(properties, "L2_cache_size", None),
        "float8_e4m3fnuz" if is_fnuz else "float8_e4m3fn",
    )


def _ask(runtime: Any, question: str, index: int) -> Any:
    """What a runtime says of a device; not all have each question."""
    return getattr(runtime, question)(index) if hasattr(runtime, question) else None


def best_product(
    device: Device, dtype: str, sizes: Sequence[int], repeats: int, show: Show
) -> Best | None:
    """The best product in a data type, or None if the device has none."""
    measured: list[Best] = []
    for size in sizes:
        try:
            with _precision(device.torch, "high" if dtype == "tf32" else "highest"):
                least = best_ns(device.product(dtype, size), device.clock, repeats)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError) as error:
            show(f"{dtype} {size}: not measured: {_line(error)}")
            continue
        measured.append(Best(size, product_flop(size, size, size), least))
        show(f"{dtype} {size}: {measured[-1].per_s / 1e12:.3f} TFLOP/s, {least / 1e6:.3f} ms")
    return max(measured, key=lambda one: one.per_s, default=None)


def best_copy(device: Device, size: int, repeats: int, show: Show) -> Best:
    """The best copy of so many bytes."""
    try:
        least = best_ns(device.copy(size), device.clock, repeats)
    except RuntimeError as error:
        raise MeasuringError(f"a copy of {size} bytes: {_line(error)}") from None
    best = Best(size, copy_bytes(size), least)
    show(f"copy of {size >> 20} MiB: {best.per_s / 1e9:.1f} GB/s, {least / 1e6:.3f} ms")
    return best


class _precision:  # noqa: N801  # a context, used like a function
    """How exactly torch multiplies in fp32 meanwhile."""

    def __init__(self, torch: Any, word: str) -> None:
        self._torch, self._word = torch, word

    def __enter__(self) -> None:
        self._before = self._torch.get_float32_matmul_precision()
        self._torch.set_float32_matmul_precision(self._word)

    def __exit__(self, *_: object) -> None:
        self._torch.set_float32_matmul_precision(self._before)


def entry(
    device: Device, products: Mapping[str, Best], copied: Best, day: dt.date
) -> dict[str, Any]:
    """What ``devices=`` takes for a device: numbers that were measured, and how."""
    sizes = ", ".join(f"{dtype} {best.size}" for dtype, best in products.items())
    comment = (
        f"Measured by scripts/device_peaks.py on {day} with torch {device.torch.__version__}: "
        f"products of {sizes}; a copy of {copied.size >> 20} MiB."
    )
    if device.where.type == "cpu":
        comment += f" But {_CPU}."
    rates = {dtype: float(f"{best.per_s:.6g}") for dtype, best in products.items()}
    sized = {"memory_bytes": device.memory_bytes, "cache_bytes": device.cache_bytes}
    return {
        "comment": comment,
        "match": [{"name": f"^{_literal(device.name)}$"}],
        **{key: size for key, size in sized.items() if size},
        "bandwidth_bytes_per_s": float(f"{copied.per_s:.6g}"),
        "dense_flop_per_s": rates,
    }


def _literal(name: str) -> str:
    """A regular expression of this text alone; spaces need no backslash."""
    return re.escape(name).replace("\\ ", " ")


def _line(error: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:100]


def _sizes(text: str | None, device: Device) -> tuple[int, ...]:
    if text is None:
        return CPU_SIZES if device.where.type == "cpu" else SIZES
    parts = text.split(",")
    if not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise MeasuringError(f"--sizes {text!r}: needs whole numbers, as 4096,8192")
    odd = [part for part in parts if int(part) % _ALIGNED]
    if odd:
        raise MeasuringError(f"--sizes {text!r}: {odd[0]} is no multiple of {_ALIGNED}")
    return tuple(map(int, parts))


def _dtypes(text: str | None, device: Device) -> tuple[str, ...]:
    if text is None:
        return tuple(one for one in DTYPES if (one, device.where.type) != ("tf32", "cpu"))
    dtypes = tuple(dict.fromkeys(text.split(",")))
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise MeasuringError(f"--dtypes: no {dtype!r}; there are {' '.join(DTYPES)}")
    return dtypes


def parser() -> argparse.ArgumentParser:
    """The options."""
    about = "Measure what a device reaches, and write that as an entry for devices=."
    options = argparse.ArgumentParser(prog="device_peaks", description=about)
    options.add_argument("-o", "--output", metavar="FILE", help="JSON file; else standard output")
    options.add_argument("--device", help="as cuda:1, xpu or cpu; else the machine's accelerator")
    options.add_argument("--dtypes", metavar="LIST", help=f"out of {','.join(DTYPES)}; else all")
    options.add_argument("--sizes", metavar="LIST", help="rows of square matrices, as 4096,8192")
    options.add_argument("--copy-mib", type=int, default=COPY_MIB, help=f"else {COPY_MIB}")
    options.add_argument("--repeats", type=int, default=REPEATS, help=f"else {REPEATS}")
    options.add_argument(
        "--model", help="name of the entry; that of a known model replaces only what is measured"
    )
    return options


def measured(given: argparse.Namespace, show: Show) -> dict[str, Any]:
    """The file's content."""
    try:
        import torch
    except ImportError:
        raise MeasuringError("needs torch: pip install torch") from None
    if given.copy_mib < 1 or given.repeats < 1:
        raise MeasuringError("--copy-mib and --repeats must be at least 1")
    device = open_device(torch, given.device)
    sizes, dtypes = _sizes(given.sizes, device), _dtypes(given.dtypes, device)
    show(f"{device.name} ({device.where}), torch {torch.__version__}: best of {given.repeats}")
    if device.where.type == "cpu":
        show(_CPU)
    copied = best_copy(device, given.copy_mib << 20, given.repeats, show)
    products = dict(_products(device, dtypes, sizes, given.repeats, show))
    if not products:
        raise MeasuringError(f"{device.name}: no product in {' '.join(dtypes)} could be measured")
    day = dt.datetime.now(dt.UTC).date()
    name = given.model or f"{device.name} (measured)"
    return {name: entry(device, products, copied, day)}


def _products(
    device: Device, dtypes: Sequence[str], sizes: Sequence[int], repeats: int, show: Show
) -> Iterator[tuple[str, Best]]:
    for dtype in dtypes:
        best = best_product(device, dtype, sizes, repeats, show)
        if best is not None:
            yield dtype, best


def _check_folder(output: Path | None) -> None:
    """Raise an error before measuring if there is no place for the file."""
    if output is not None and not output.parent.is_dir():
        raise MeasuringError(f"{output}: there is no such folder")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the file."""
    given = parser().parse_args(arguments)
    to_terminal = sys.stderr.isatty()

    def show(line: str) -> None:
        if to_terminal:
            print(line, file=sys.stderr, flush=True)

    output = None if given.output is None else Path(given.output)
    try:
        _check_folder(output)
        text = json.dumps(measured(given, show), indent=2, ensure_ascii=False) + "\n"
        if output is None:
            sys.stdout.write(text)
            return
        output.write_text(text, encoding="utf-8")
        show(f"written to {output}: profframe.load(trace, devices={str(output)!r})")
    except MeasuringError as error:
        sys.exit(f"device_peaks: {error}")
    except OSError as error:
        sys.exit(f"device_peaks: {output}: {error.strerror or error}")


if __name__ == "__main__":
    main()
