"""Rules of advice against ``torch.profiler._pattern_matcher``, on one live profile.

Each case is a region of the profile. Where torch's pattern matches in it, our rule has to fire with
the same events, and nowhere else; `DEVIATIONS` names the cases where we differ on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pytest

import profframe
from tests import needs

MATCHER: Final = "torch.profiler._pattern_matcher"
PATTERNS: Final = MappingProxyType(
    {
        "extra_device_copy": "ExtraCUDACopyPattern",
        "loop_indexing": "ForLoopIndexingPattern",
        "single_tensor_optimizer": "OptimizerSingleTensorPattern",
        "synchronous_data_loader": "SynchronizedDataLoaderPattern",
        "zeroed_gradients": "GradNotSetToNonePattern",
        "conv_bias_before_batch_norm": "Conv2dBiasFollowedByBatchNorm2dPattern",
        "unaligned_matmul": "MatMulDimInFP16Pattern",
    }
)
DEVIATIONS: Final = MappingProxyType(
    {
        ("copy of what was not filled", "extra_device_copy"): "torch does not look at shapes",
        ("copy to channels last", "extra_device_copy"): "another memory format is no device",
        ("loop of two indices", "loop_indexing"): "selects behind each other begin one round",
        ("loop of ten", "loop_indexing"): "the last round lacks what belongs to the next one",
        ("rmsprop", "single_tensor_optimizer"): "it has foreach, too",
        ("conv1d", "conv_bias_before_batch_norm"): "other convolutions count, too",
        ("mm of one row", "unaligned_matmul"): "a single row is as long as it is",
        ("mm of odd many rows", "unaligned_matmul"): "how many rows there are costs nothing",
    }
)
Case: TypeAlias = Callable[[], object]
Starts: TypeAlias = Mapping[tuple[str, str], set[int]]


def _loops() -> Mapping[str, Case]:
    import torch

    x = torch.ones((100, 100))

    def assigned(rounds: int) -> None:
        for i in range(rounds):
            x[i] = i

    def summed() -> None:
        y = torch.zeros(100)
        for i in range(50):
            y += x[i]

    def multiplied() -> None:
        y = x
        for _ in range(50):
            y = y @ x

    def of_rows() -> None:
        for i in range(50):
            x[i, :] = torch.arange(100) + i

    def of_two_indices() -> None:
        for i in range(50):
            x[i, 3] = 1.0

    return {
        "loop of fifty": lambda: assigned(50),
        "loop of ten": lambda: assigned(10),
        "loop of nine": lambda: assigned(9),
        "loop that sums": summed,
        "loop without an index": multiplied,
        "loop over rows": of_rows,
        "loop of two indices": of_two_indices,
    }


def _optimizers() -> Mapping[str, Case]:
    import torch

    def trained(kind: Any, *, to_none: bool = True, **options: Any) -> None:
        model = torch.nn.Linear(10, 10)
        optimizer = kind(model.parameters(), lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=to_none)
            model(torch.rand(4, 10)).sum().backward()
            optimizer.step()

    def of_the_module() -> None:
        model = torch.nn.Linear(10, 10)
        for _ in range(2):
            model.zero_grad(set_to_none=False)
            model(torch.rand(4, 10)).sum().backward()

    optim = torch.optim
    return {
        "adam": lambda: trained(optim.Adam),
        "adamw": lambda: trained(optim.AdamW),
        "sgd": lambda: trained(optim.SGD),
        "rmsprop": lambda: trained(optim.RMSprop),
        "adam foreach": lambda: trained(optim.Adam, foreach=True),
        "sgd fused": lambda: trained(optim.SGD, fused=True),
        "sgd zeroes": lambda: trained(optim.SGD, to_none=False),
        "sgd foreach zeroes": lambda: trained(optim.SGD, to_none=False, foreach=True),
        "module zeroes": of_the_module,
    }


def _convolutions() -> Mapping[str, Case]:
    import torch
    from torch import nn

    images = torch.rand(2, 3, 16, 16)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

        def forward(self, given: Any) -> Any:
            return self.norm(self.convolution(given))

    def run(*layers: nn.Module, given: Any = images) -> Case:
        """A case that keeps its modules: torch takes one at the place of another for the other."""
        model = nn.Sequential(*layers)
        return lambda: model(given)

    return {
        "conv with a bias": run(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)),
        "conv without": run(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)),
        "conv and relu": run(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8)),
        "conv of a module": run(Block()),
        "conv for inference": run(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).eval()),
        "conv1d": run(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), given=images[:, :, 0]),
    }


def _products() -> Mapping[str, Case]:
    import torch

    def product(dtype: torch.dtype, rows: int, inner: int, columns: int) -> None:
        left = torch.ones(rows, inner, dtype=dtype)
        right = torch.ones(inner, columns, dtype=dtype)
        torch.mm(left, right)
        torch.addmm(torch.ones(columns, dtype=dtype), left, right)
        torch.bmm(left[None], right[None])

    return {
        "mm of half": lambda: product(torch.half, 20, 21, 24),
        "mm of bfloat16": lambda: product(torch.bfloat16, 16, 16, 25),
        "mm of eights": lambda: product(torch.half, 16, 32, 8),
        "mm of float": lambda: product(torch.float, 11, 13, 17),
        "mm of one row": lambda: product(torch.half, 1, 16, 8),
        "mm of odd many rows": lambda: product(torch.half, 33, 16, 8),
    }


def _copies() -> Mapping[str, Case]:
    import torch

    def other() -> None:
        given = torch.rand(50, 50)
        torch.zeros(10, 10)
        given.to(torch.float32, copy=True)

    return {
        "copy of zeros": lambda: torch.zeros(10, 10).to(torch.float32, copy=True),
        "copy of ones": lambda: torch.ones(10, 10).to("cpu", copy=True),
        "copy of a fill": lambda: torch.empty(9, 9).fill_(5).to(torch.float32, copy=True),
        "copy of random numbers": lambda: torch.randn(9).to("cpu", copy=True),
        "copy to half": lambda: torch.rand(10, 10).half(),
        "copy of what was not filled": other,
        "copy to channels last": lambda: torch.rand(2, 3, 4, 4).to(
            memory_format=torch.channels_last
        ),
    }


def _loaders() -> Mapping[str, Case]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def read(workers: int) -> None:
        data: Any = TensorDataset(torch.rand(64, 1000))
        for (batch,) in DataLoader(data, batch_size=8, num_workers=workers):
            batch.sum()

    return {"loader": lambda: read(0), "loader with a worker": lambda: read(1)}


@dataclass(frozen=True)
class Found:
    """Starts of events by (case, rule): those torch's pattern matches, and our rule's evidence."""

    by_torch: Starts
    by_us: Starts


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return _found(tmp_path_factory.mktemp("patterns"), with_stack=True)


def _found(folder: Path, *, with_stack: bool) -> Found:
    from torch.profiler import ProfilerActivity, profile, record_function

    cases: dict[str, Case] = {}
    for group in (_loops, _optimizers, _convolutions, _products, _copies, _loaders):
        cases |= group()
    for case in cases.values():
        case()  # torch fails on the names of frames that are gone, as those of an import
    options: Any = {"record_shapes": True, "with_stack": with_stack}
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for name, case in cases.items():
            with record_function(f"case: {name}"):
                case()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = profframe.load(path)
    return Found(_by_case(trace, _matched(profiler)), _by_case(trace, _advised(trace)))


def _matched(profiler: Any) -> Iterator[tuple[str, int]]:
    """Rule, and start of an event that torch's pattern matches."""
    try:
        matcher = import_module(MATCHER)
    except ModuleNotFoundError:
        return
    for rule, pattern in PATTERNS.items():
        for event in getattr(matcher, pattern)(profiler).matched_events():
            yield rule, event.start_time_ns


def _advised(trace: profframe.Trace) -> Iterator[tuple[str, int]]:
    """Rule, and start of an event that is evidence of ours.

    What waits for the loader is one finding, so the rule of its time is kept silent.
    """
    thresholds = {"synchronous_data_loader_share": 0.0, "data_loading_share": 2.0}
    findings = trace.answer("advice", **thresholds)
    starts = dict(trace.sql("SELECT event_id, start_ns FROM events").rows())
    for rule, evidence in findings.select("rule", "evidence_events").rows():
        yield from ((rule, starts[event_id]) for event_id in evidence if rule in PATTERNS)


def _by_case(trace: profframe.Trace, starts: Iterator[tuple[str, int]]) -> Starts:
    """The same by the case that was running then."""
    cases = trace.sql(
        "SELECT substr(name, 7), start_ns, start_ns + dur_ns FROM events WHERE name LIKE 'case: %'"
    ).rows()
    found: dict[tuple[str, str], set[int]] = {}
    for rule, at in starts:
        (case,) = (name for name, start, end in cases if start <= at < end)
        found.setdefault((case, rule), set()).add(at)
    return found


class TestAgainstTorch:
    @pytest.fixture(autouse=True)
    def _matcher(self) -> None:
        needs.module(MATCHER)  # gone since 2.14

    def test_every_pattern_matches_somewhere(self, found: Found) -> None:
        assert {rule for _, rule in found.by_torch} == set(PATTERNS)

    def test_the_rules_fire_where_the_patterns_match_and_nowhere_else(self, found: Found) -> None:
        assert set(found.by_us) ^ set(found.by_torch) == set(DEVIATIONS)

    def test_what_a_pattern_matches_is_evidence(self, found: Found) -> None:
        """But for a call of zero_grad: the evidence are the fills in it."""
        for key, starts in found.by_torch.items():
            if key not in DEVIATIONS and key[1] != "zeroed_gradients":
                assert starts <= found.by_us[key], key


def test_without_stacks_the_rules_fire_in_the_same_cases(found: Found, tmp_path: Path) -> None:
    """But for what no op shows: `zero_grad` of a module is Python alone."""
    without = _found(tmp_path, with_stack=False)
    assert set(found.by_us) - set(without.by_us) == {("module zeroes", "zeroed_gradients")}
    assert set(without.by_us) <= set(found.by_us)
