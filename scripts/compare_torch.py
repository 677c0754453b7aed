"""Compare profframe with the torch that is installed, and print how much was compared.

On any release: device times of lists whose ops name kernels, some of which are slices of the list.
Since 2.13: each field of each event, key averages in every grouping, and tables by every sort key,
of live profiles and of their files. Exits with 1 at the first difference.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
warnings.simplefilter("ignore")

import torch  # noqa: E402

import profframe  # noqa: E402
from profframe.facts.torch_compat.releases import installed  # noqa: E402

_PROFILES: Final = ("plain", "training", "stacks", "verbose", "several_threads", "flops")
_TABLES: Final = ("training", "verbose")
"""Those whose tables have all columns."""
_TOTALS: Final = ("device_time_total", "cuda_time_total")
_OWN: Final = ("self_device_time_total", "self_cuda_time_total")
_DEVICE: Final = "cuda" if installed() >= (2, 4) else None
"""What torch takes for CUDA."""
_LISTS: Final = 20


def main() -> int:
    """Compare everything that this release can be compared in."""
    counts = lists()
    if installed() >= (2, 13):
        counts += profiles()
    print(f"torch {torch.__version__}, equal:")
    for what, count in counts.items():
        print(f"  {count:>8,} {what}")
    return 0


def lists() -> Counter[str]:
    """Lists of a CPU profile whose ops name kernels: by torch's own totals."""
    counts: Counter[str] = Counter()
    for seed in range(_LISTS):
        events, named = _list(random.Random(seed))  # noqa: S311 -- which kernels are slices
        for compat in (None, "torch"):
            trace = profframe.load(events, compat=compat)
            rows = trace.events.to_dicts()
            for row, event in zip(rows, events, strict=True):
                if row["device"] is None:
                    _same("device time", row["device_ns"], _ns(event, _TOTALS))
                    _same("own device time", row["self_device_ns"], _ns(event, _OWN))
                    counts["device times of events that name kernels"] += 2 * bool(event.kernels)
                elif compat is None:
                    _same("op of a slice", row["op_id"], named.get(id(event)))
                    counts["device slices that are linked to their op"] += id(event) in named
            counts["events of lists"] += len(rows)
        counts["lists of events"] += 1
    return counts


def _list(generator: random.Random) -> tuple[Any, dict[int, int]]:
    """Events of a profile and device slices; and for each of these the row of its op, if any."""
    util = torch.autograd.profiler_util
    with torch.autograd.profiler.profile(use_kineto=True) as profile:
        x = torch.ones(8, 8, requires_grad=True)
        (x @ x).relu().sum().backward()
    events = [event for event in profile.function_events if event.name != "[memory]"]
    slices: list[Any] = []
    kernels: list[int] = []
    for row, event in enumerate(events):
        event.use_device = _DEVICE
        for number in range(generator.randrange(3) if not event.is_async else 0):
            name, device, us = (
                f"kernel {row}.{number}",
                number % 2,
                generator.randrange(1, 99_999) / 1000,
            )
            event.append_kernel(name, device, us)
            if generator.random() < 0.5:
                start = event.time_range.end + number * 200
                one = util.FunctionEvent(
                    5000 + len(slices), name, 77, start, start + us, input_shapes=[], stack=[],
                    device_type=torch.autograd.DeviceType.CUDA, device_index=device,
                    use_device=_DEVICE,
                )  # fmt: skip
                slices.append(one)
                kernels.append(row)
    both = sorted([*events, *slices], key=lambda event: event.time_range.start)
    made = util.EventList(both, use_device="cuda", profile_memory=False)
    place = {id(event): row for row, event in enumerate(made)}
    named = {id(one): place[id(events[row])] for one, row in zip(slices, kernels, strict=True)}
    return made, named


def _ns(event: Any, names: Sequence[str]) -> int:
    name = next(name for name in names if hasattr(event, name))
    return round(float(getattr(event, name)) * 1000)


def profiles() -> Counter[str]:
    """Real profiles of the CPU: live, and from their files."""
    from tests.parity import comparing, test_key_averages, test_table
    from tests.parity.profiles import Library

    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder))
        for name in _PROFILES:
            taken = library[name]
            ours = comparing.Ours(taken.loaded("profiler", "torch"))
            names = comparing.demangled(ours.kept)
            theirs = comparing.slices_of(taken.events)
            _same("number of events", len(ours.kept), len(theirs))
            for mine, event in zip(comparing.of_ours(ours), theirs, strict=True):
                its = comparing.of_torch(event, taken.results.trace_start_ns())
                row = mine | {"name": names[mine["name"]]}
                for field in its:
                    _same(field, row[field], its[field])
                counts["fields of events of live profiles"] += len(its)
            for source in ("live", "file"):
                trace = test_key_averages.loaded(taken, source)
                for grouping in test_key_averages.GROUPINGS.values():
                    rows = test_key_averages.ours(trace, grouping)
                    averages = test_key_averages.averages(taken.events, grouping)
                    _same(f"key averages of {name}", rows, test_key_averages.torchs(averages))
                    counts[f"values of key averages, {source}, all groupings"] += sum(
                        map(len, rows)
                    )
                    for sort_by in _sort_keys(test_table) if name in _TABLES else ():
                        style: dict[str, Any] = {"sort_by": sort_by, "row_limit": -1}
                        text = trace.table(**grouping, **style, compat="torch")
                        _same(f"table of {name} by {sort_by}", text, str(averages.table(**style)))
                        counts[f"tables, {source}, all groupings and sort keys"] += 1
    return counts


def _sort_keys(test_table: Any) -> Iterator[str]:
    styles = (*test_table.STYLES, *test_table.OTHER_STYLES)
    yield from dict.fromkeys(style["sort_by"] for style in styles if "sort_by" in style)


def _same(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        sys.exit(f"torch {torch.__version__}: {what}: here {ours!r:.500}, in torch {theirs!r:.500}")


if __name__ == "__main__":
    sys.exit(main())
