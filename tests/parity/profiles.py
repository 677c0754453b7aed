"""Real CPU profiles by name, each taken in the test session with torch's own profiler.

A scenario is a function that takes a profile; it returns the finished profiler and the options that
it was taken with. `Library` takes each of them once, and keeps what torch makes of it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import profframe
from profframe.trace.trace import Trace

OPEN_REGIONS: Final[list[Any]] = []
"""Regions that are never closed: the record must outlive its profile."""


@dataclass(frozen=True)
class Options:
    """What a profile was taken with: the keywords of the profiler, and of the export."""

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    verbose: bool = False
    overloads: bool = False
    python_export: bool = False
    torch_reads_it: bool = True
    """Torch's own `events()` works."""
    file_holds_names: bool = True
    """The exporter writes names as they are."""


@dataclass
class Taken:
    """A finished profile, and what torch makes of it; the file is written after its events."""

    name: str
    profiler: Any
    options: Options
    folder: Path
    traces: dict[tuple[str, str | None], Trace] = field(default_factory=dict)

    @property
    def autograd(self) -> Any:
        """The `torch.autograd.profiler.profile`, also of a `torch.profiler.profile`."""
        inner = getattr(self.profiler, "profiler", None)
        return self.profiler if inner is None else inner

    @property
    def results(self) -> Any:
        """The `_ProfilerResult`."""
        return self.autograd.kineto_results

    @cached_property
    def events(self) -> Any:
        """Torch's `EventList`, or None where torch cannot make it."""
        if not self.options.torch_reads_it:
            return None
        return self.autograd.function_events

    @cached_property
    def path(self) -> Path:
        """The exported Chrome JSON; torch's exporter works once, so the events are read before."""
        _ = self.events
        path = self.folder / f"{self.name}.json"
        if self.options.python_export:
            self.autograd.export_chrome_trace(str(path), use_python_export=True)
        else:
            self.profiler.export_chrome_trace(str(path))
        return path

    @property
    def compat(self) -> str | None:
        """With what the trace nests as torch does: with Python frames it does not by default."""
        return "torch" if self.options.with_stack else None

    def loaded(self, source: str, compat: str | None = None) -> Trace:
        """The trace of the `profiler`, of its `path` or of its `events`, loaded once."""
        key = source, compat
        if key not in self.traces:
            self.traces[key] = profframe.load(getattr(self, source), compat=compat)
        return self.traces[key]


Scenario = Callable[[], tuple[Any, Options]]


def _taken(work: Callable[[], object], options: Options, **more: Any) -> tuple[Any, Options]:
    """A `torch.profiler.profile` of some work."""
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        with_stack=options.with_stack,
        with_flops=options.with_flops,
        experimental_config=_experimental(options, **more),
    )
    with warnings.catch_warnings(), profiler:
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        work()
    return profiler, options


def _experimental(options: Options, **more: Any) -> Any:
    from torch._C._profiler import _ExperimentalConfig

    return _ExperimentalConfig(
        verbose=options.verbose, capture_overload_names=options.overloads, **more
    )


def _trainer() -> Callable[[], None]:
    """One step of a small network: its forward, its backward, its optimizer."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.randn(2, 3, 8, 8), torch.tensor([1, 7])

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    step()
    return step


def training() -> tuple[Any, Options]:
    """A training step, with shapes, memory and flops."""
    return _taken(_trainer(), Options(record_shapes=True, profile_memory=True, with_flops=True))


def plain() -> tuple[Any, Options]:
    """A training step without any option."""
    return _taken(_trainer(), Options())


def stacks() -> tuple[Any, Options]:
    """Python frames, but no call stacks: with_stack without verbose."""
    return _taken(_trainer(), Options(with_stack=True))


def verbose() -> tuple[Any, Options]:
    """Everything there is: call stacks, shapes, memory, flops."""
    options = Options(
        record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, verbose=True
    )
    return _taken(_trainer(), options)


def _in_threads(count: int, work: Callable[[int], object]) -> None:
    """Several Python threads that run at one time."""
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def several_threads() -> tuple[Any, Options]:
    """Four Python threads with memory, all of them profiled."""
    import torch

    def work(number: int) -> None:
        with torch.profiler.record_function(f"worker {number}"):
            for size in range(1, 12):
                torch.ones(size * 100).add_(1).sum()

    options = Options(profile_memory=True, record_shapes=True)
    return _taken(lambda: _in_threads(4, work), options, profile_all_threads=True)


def async_regions() -> tuple[Any, Options]:
    """Regions that end on another thread: futures, and tasks of TorchScript."""
    import torch
    from torch.autograd.profiler import record_function

    def work() -> None:
        future: Any = torch.futures.Future()
        with record_function("ends elsewhere") as region:
            inside = torch.ones(10).add(1)
            done = region._call_end_callbacks_on_future(future)
        torch.ones(20).mul(inside.sum())
        thread = threading.Thread(target=lambda: future.set_result(torch.ones(3)))
        thread.start()
        thread.join()
        done.wait()
        with record_function("around the tasks"):
            tasks = [torch.jit._fork(torch.mul, torch.ones(50), number) for number in range(3)]
            for task in tasks:
                torch.jit._wait(task)

    return _taken(work, Options(profile_memory=True))


def unfinished_region() -> tuple[Any, Options]:
    """A region that is never closed, with ops inside it and after."""
    import torch
    from torch.autograd.profiler import record_function

    def work() -> None:
        with record_function("closed"):
            torch.ones(5)
        OPEN_REGIONS.append(torch.ops.profiler._record_function_enter_new("never closed", None))
        torch.ones(10).add(1)
        with record_function("inside the open one"):
            torch.ones(10).mul(2)

    return _taken(work, Options(profile_memory=True, record_shapes=True))


def duplicate_names() -> tuple[Any, Options]:
    """Regions of one name inside each other: alone, three deep, and with siblings."""
    import torch
    from torch.autograd.profiler import record_function

    def nested(name: str, depth: int, *, siblings: int = 1) -> None:
        if not depth:
            torch.ones(4).add(1)
            return
        with record_function(name):
            for _ in range(siblings):
                nested(name, depth - 1)

    def work() -> None:
        nested("twice", 2)
        nested("three deep", 3)
        nested("siblings", 2, siblings=2)
        nested("siblings above a pair", 3, siblings=2)
        with record_function("ProfilerStep#1"), record_function("ProfilerStep#2"):
            torch.ones(4)
        with record_function("other"), record_function("twice"):
            nested("twice", 2)

    return _taken(work, Options(profile_memory=True))


def double_backward() -> tuple[Any, Options]:
    """A gradient of a gradient, with stacks: a backward of a backward."""
    import torch

    def work() -> None:
        x = torch.randn(4, 4, requires_grad=True)
        y = (x @ x).sigmoid().sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        gradient.pow(2).sum().backward()

    options = Options(record_shapes=True, profile_memory=True, with_stack=True, verbose=True)
    return _taken(work, options)


def scheduled_cycles() -> tuple[Any, Options]:
    """Three cycles of a schedule; the last one stays."""
    from torch.profiler import ProfilerActivity, profile, schedule

    step = _trainer()
    options = Options(profile_memory=True, record_shapes=True)
    profiler = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=3),
        record_shapes=True,
        profile_memory=True,
    )
    with warnings.catch_warnings(), profiler:
        warnings.simplefilter("ignore")  # it clears its events at the end of each cycle
        for _ in range(12):
            step()
            profiler.step()
    return profiler, options


_SCRIPT: Final = """
def activation(x):
    return torch.relu(x)

def residual(x, w):
    return activation(torch.mm(x, w)) + x
"""


def torchscript() -> tuple[Any, Options]:
    """A scripted function and its backward, with source lines."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        unit = torch.jit.CompilationUnit(_SCRIPT)
        x = torch.randn(4, 4, requires_grad=True)
        for _ in range(3):
            unit.residual(x, x).sum().backward()

    options = Options(record_shapes=True, with_stack=True, verbose=True)
    return _taken(lambda: unit.residual(x, x).sum().backward(), options)


def empty() -> tuple[Any, Options]:
    """Nothing happened."""
    return _taken(lambda: None, Options())


def deep_recursion() -> tuple[Any, Options]:
    """1,200 regions inside each other; torch itself fails with a RecursionError."""
    import torch

    def work() -> None:
        records = [
            torch.ops.profiler._record_function_enter_new(f"level {level}", None)
            for level in range(1200)
        ]
        torch.ones(3).add(1)
        for record in reversed(records):
            torch.ops.profiler._record_function_exit._RecordFunction(record)

    return _taken(work, Options(profile_memory=True, torch_reads_it=False))


def overload_names() -> tuple[Any, Options]:
    """Ops with their overloads."""
    import torch

    def work() -> None:
        x = torch.ones(3)
        x.add(1)
        x.add(x)
        x.add_(x)
        torch.sum(x)
        torch.sum(x, 0)

    return _taken(work, Options(record_shapes=True, overloads=True))


def memory_outside() -> tuple[Any, Options]:
    """Blocks that are freed outside every event."""
    import torch

    def work() -> None:
        kept = [torch.ones(size * 100) for size in range(1, 6)]
        while kept:
            del kept[0]
        torch.ones(7)

    return _taken(work, Options(profile_memory=True, record_shapes=True))


def only_memory() -> tuple[Any, Options]:
    """A block is made and freed, and nothing else happens."""
    import torch

    return _taken(lambda: torch.UntypedStorage(1000), Options(profile_memory=True))


def dropped_names() -> tuple[Any, Options]:
    """Regions with the names that torch drops."""
    import torch
    from torch.autograd.profiler import record_function

    def work() -> None:
        for name in ("[memory]", "aten::is_leaf", "[OutOfMemory]", "aten::_version"):
            with record_function("around"), record_function(name), record_function("inside"):
                torch.ones(6).add(1)

    return _taken(work, Options(profile_memory=True, record_shapes=True))


def hostile_names() -> tuple[Any, Options]:
    """Names that the exporter destroys."""
    import torch
    from torch.autograd.profiler import record_function

    names = (
        "", " ", "back\\slash", "line\nbreak", "tab\there", "\N{SNOWMAN} \N{GRINNING FACE}",
        "a;b", "_ZN2at6native3addEv", "t", "i", "{}", "[]", "null", "'single'", "aten::add.Tensor",
        "long " * 100,
    )  # fmt: skip

    def work() -> None:
        for name in names:
            with record_function(name):
                torch.ones(2)

    return _taken(work, Options(file_holds_names=False))


def flops() -> tuple[Any, Options]:
    """Every op that torch has a formula for, and inputs that fit none."""
    import torch
    from torch.nn import functional

    def work() -> None:
        image = torch.randn(2, 4, 9, 9)
        functional.conv2d(image, torch.randn(6, 4, 3, 3), stride=2, padding=1)
        functional.conv2d(image, torch.randn(6, 2, 3, 3), groups=2, dilation=2)
        functional.conv2d(image, torch.randn(6, 4, 3, 3), padding="same")
        functional.conv_transpose2d(image, torch.randn(4, 6, 3, 3))
        functional.conv1d(torch.randn(2, 4, 9), torch.randn(6, 4, 3))
        a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
        torch.bmm(a, b)
        torch.baddbmm(torch.randn(3, 4, 6), a, b)
        torch.mm(a[0], b[0])
        torch.addmm(torch.randn(6), a[0], b[0])
        torch.add(a, 1)
        torch.mul(a, torch.randn(5))
        torch.zeros(0, 4) @ torch.zeros(4, 0)
        torch.cat([a, a]), torch.stack([a[0], a[0]])

    return _taken(work, Options(record_shapes=True, with_flops=True))


def only_flops() -> tuple[Any, Options]:
    """Flops, without asking for shapes."""
    import torch

    return _taken(lambda: torch.randn(3, 4) @ torch.randn(4, 5), Options(with_flops=True))


def python_export() -> tuple[Any, Options]:
    """A file that torch's exporter in Python wrote."""
    profiler, _ = verbose()
    options = Options(
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_flops=True,
        verbose=True,
        python_export=True,
    )
    return profiler, options


def autograd_profile() -> tuple[Any, Options]:
    """A `torch.autograd.profiler.profile`."""
    from torch.autograd.profiler import profile

    step = _trainer()
    with profile(record_shapes=True, profile_memory=True, use_kineto=True) as profiler:
        step()
    return profiler, Options(record_shapes=True, profile_memory=True)


SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        take.__name__: take
        for take in (
            training,
            plain,
            stacks,
            verbose,
            several_threads,
            async_regions,
            unfinished_region,
            duplicate_names,
            double_backward,
            scheduled_cycles,
            torchscript,
            empty,
            deep_recursion,
            overload_names,
            memory_outside,
            only_memory,
            dropped_names,
            hostile_names,
            flops,
            only_flops,
            python_export,
            autograd_profile,
        )
    }
)
"""All of them, by name."""


class Library:
    """Profiles that are taken when they are first asked for, and kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Taken] = {}

    def __getitem__(self, name: str) -> Taken:
        if name not in self._kept:
            profiler, options = SCENARIOS[name]()
            self._kept[name] = Taken(name, profiler, options, self._folder)
        return self._kept[name]
