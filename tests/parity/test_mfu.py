"""FLOPs that MFU counts: closed forms, ``torch.utils.flop_counter``, and checkpointing, live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import needs

torch = needs.torch()

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import profframe  # noqa: E402

nn = torch.nn
ROWS, WIDTH, HIDDEN = 32, 48, 96

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def used(step: Callable[[], Any], *, steps: int = 3, **options: Any) -> dict[str, Any]:
    """The one row about a run of so many steps."""
    rows: list[dict[str, Any]] = []
    with torch.profiler.profile(
        record_shapes=True,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
        on_trace_ready=lambda made: rows.extend(profframe.load(made).mfu(**options).to_dicts()),
    ) as profile:
        for _ in range(steps + 1):
            step()
            profile.step()
    (row,) = rows
    return row


def network(dtype: Any = torch.float32) -> Any:
    return nn.Sequential(
        nn.Linear(WIDTH, HIDDEN, bias=False, dtype=dtype),
        nn.GELU(),
        nn.LayerNorm(HIDDEN, dtype=dtype),
        nn.Linear(HIDDEN, WIDTH, bias=False, dtype=dtype),
    )


def trained(model: Any, optimizer: Any, rows: Any) -> Callable[[], None]:
    def step() -> None:
        model(rows).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def rows_of(dtype: Any = torch.float32) -> Any:
    """Inputs with a gradient: without one the first layer has two products instead of three."""
    return torch.randn(ROWS, WIDTH, dtype=dtype).requires_grad_()


def test_six_times_parameters_times_tokens() -> None:
    """In three steps; norms, activations and the optimizer are no products."""
    model = network()
    parameters = 2 * WIDTH * HIDDEN
    row = used(trained(model, torch.optim.Adam(model.parameters()), rows_of()))
    assert row["model_flops"] == 3 * 6 * parameters * ROWS
    assert (row["steps"], row["dtype"], row["recomputed_flops"]) == (3, "fp32", 0)
    assert (row["mfu"], row["note"]) == (None, "no_device")


def test_the_type_with_most_products() -> None:
    """Layers in bfloat16 after one in float32, which has a sixth of the products."""
    first, model = nn.Linear(WIDTH, WIDTH // 2, bias=False), network(torch.bfloat16)
    rows = rows_of()

    def step() -> None:
        first(rows).sum().backward()
        model(rows.to(torch.bfloat16)).sum().backward()

    row = used(step)
    assert row["dtype"] == "bf16"
    assert row["model_flops"] == 3 * 6 * ROWS * (WIDTH * WIDTH // 2 + 2 * WIDTH * HIDDEN)


class Block(nn.Module):  # type: ignore[misc, name-defined]
    """A layer of a transformer, by torch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.network = network()

    def forward(self, rows: Any) -> Any:
        query, key, value = self.mix(rows).view(2, ROWS, 3, 4, WIDTH // 4).unbind(2)
        heads = (part.transpose(1, 2) for part in (query, key, value))
        with sdpa_kernel(SDPBackend.MATH):  # torch's counter knows no other one of CPUs
            mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        rows = rows + self.out(mixed.transpose(1, 2).reshape(2, ROWS, WIDTH))
        return rows + self.network(rows)


def convolutions() -> tuple[Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3),
        nn.Flatten(), nn.Linear(4 * 14 * 14, 10),
    )  # fmt: skip
    return model, torch.randn(2, 3, 16, 16).requires_grad_()


def blocks() -> tuple[Any, Any]:
    return nn.Sequential(Block(), Block()), torch.randn(2, ROWS, WIDTH).requires_grad_()


@pytest.mark.parametrize("made", [convolutions, blocks])
def test_as_torch_counts(made: Callable[[], tuple[Any, Any]]) -> None:
    model, rows = made()
    step = trained(model, torch.optim.SGD(model.parameters(), 0.01), rows)
    with FlopCounterMode(display=False) as counter:
        step()
    assert used(step)["model_flops"] == pytest.approx(3 * counter.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_apart(reentrant: bool) -> None:
    model, rows = blocks()
    plain = used(trained(model, torch.optim.SGD(model.parameters(), 0.01), rows))
    with FlopCounterMode(display=False) as counter:
        model[1](rows)
    again = 3 * counter.get_total_flops()

    def step() -> None:
        hidden = model[0](rows)
        checkpoint(model[1], hidden, use_reentrant=reentrant).sum().backward()

    row = used(step)
    assert row["model_flops"] == plain["model_flops"]
    # What is recomputed stops at the last tensor that backward needs.
    assert 0.6 * again < row["recomputed_flops"] <= again
    if reentrant:
        assert row["recomputed_flops"] == again


def test_given_flops_of_the_model() -> None:
    """Each of three steps has as many."""
    model = network()
    row = used(trained(model, torch.optim.SGD(model.parameters(), 0.01), rows_of()),
               model_flops_per_step=1e15)  # fmt: skip
    assert row["model_flops"] == 3e15
