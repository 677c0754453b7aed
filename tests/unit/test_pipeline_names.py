"""What names of slices say of a pipeline, as torch itself writes them, and as others do."""

from __future__ import annotations

from typing import Any

from profframe import Trace, schema
from tests import needs

Call = tuple[int | None, str, int | None]

WORDS = {
    "FORWARD": "forward",
    "FULL_BACKWARD": "backward",
    "BACKWARD_INPUT": "backward",
    "BACKWARD_WEIGHT": "weight_gradient",
}
"""Kinds of actions of torch in which a stage works."""


def said(names: list[str]) -> dict[str, list[Call] | None]:
    empty = {name: t.arrow.empty_table() for name, t in schema.TABLES.items()}
    quoted = ", ".join("('" + name.replace("'", "''") + "')" for name in names)
    rows = Trace.from_tables(empty).sql(
        f"SELECT name, pipeline_calls(name) AS calls FROM (VALUES {quoted}) AS t(name)"
    )
    return {
        row["name"]: None
        if row["calls"] is None
        else [(c["stage"], c["phase"], c["microbatch"]) for c in row["calls"]]
        for row in rows.to_dicts()
    }


def test_names_that_torch_writes() -> None:
    schedules = needs.module("torch.distributed.pipelining.schedules")
    if not hasattr(schedules, "_get_profiler_function_name"):
        needs.another_release("no names of actions")
    name_of, action_of, kinds = (
        schedules._get_profiler_function_name,
        schedules._Action,
        schedules._ComputationType,
    )
    expected: dict[str, list[Call] | None] = {}
    single: list[tuple[Any, Call]] = []
    for kind in kinds:
        if kind.name == "OVERLAP_F_B":
            continue
        phase = WORDS.get(kind.name, "communication")
        for stage, microbatch in ((0, 0), (12, 345), (3, None)):
            action = action_of(stage, kind, microbatch)
            single.append((action, (stage, phase, microbatch)))
            expected[name_of(action)] = [(stage, phase, microbatch)]
    forward = next(pair for pair in single if pair[0] == action_of(12, kinds.FORWARD, 345))
    backward = next(pair for pair in single if pair[0] == action_of(0, kinds.FULL_BACKWARD, 0))
    both = action_of(-1, kinds.OVERLAP_F_B, None, (forward[0], backward[0]))
    expected[name_of(both)] = [forward[1], backward[1]]
    assert said([*expected]) == expected


MEGATRON = "megatron.core.pipeline_parallel"
NAMES: dict[str, list[Call] | None] = {
    "Forward 3": [(None, "forward", 3)],
    "Backward 12": [(None, "backward", 12)],
    "forward_mb_2": [(None, "forward", 2)],
    "BACKWARD_MICROBATCH_7": [(None, "backward", 7)],
    "forward_step": [(None, "forward", None)],
    "megatron.core.pipeline_parallel.schedules.backward_step": [(None, "backward", None)],
    "forward-compute": [(None, "forward", None)],
    "backward-compute": [(None, "backward", None)],
    "forward-recv": [(None, "communication", None)],
    "backward-send-forward-recv": [(None, "communication", None)],
    "send_forward_recv_backward": [(None, "communication", None)],
    "recv_forward": [(None, "communication", None)],
    "forward-backward-send-forward-backward-recv": [(None, "communication", None)],
    f"{MEGATRON}.p2p_communication.send_forward_backward_recv_forward_backward": [
        (None, "communication", None)
    ],
    "megatron/core/pipeline_parallel/p2p_communication.py(9): send_backward_recv_forward": [
        (None, "communication", None)
    ],
    "megatron/core/pipeline_parallel/combined_1f1b.py(9): combined_forward_backward_step": [
        (None, "forward_backward", None)
    ],
    "ForwardPass(buffer_id=2)": [(None, "forward", None)],
    "BackwardPass": [(None, "backward", None)],
    "SendGrad(buffer_id=1)": [(None, "communication", None)],
    "OptimizerStep": [(None, "optimizer", None)],
    "Optimizer.step#AdamW.step": [(None, "optimizer", None)],
    "C:\\torch\\distributed\\pipelining\\stage.py(9): backward_weight_one_chunk": [
        (None, "weight_gradient", None)
    ],
    "torch/distributed/pipelining/stage.py(720): forward_one_chunk": [(None, "forward", None)],
    "megatron/core/pipeline_parallel/schedules.py(3): forward_step": [(None, "forward", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_backward_pass": [(None, "backward", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_send_activations": [(None, "communication", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_recv_grads": [(None, "communication", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_reduce_tied_grads": [(None, "communication", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_optimizer_step": [(None, "optimizer", None)],
    "deepspeed/runtime/pipe/engine.py(7): _exec_load_micro_batch": None,
    "DeepSpeedEngine.forward": None,
    f"{MEGATRON}.schedules.forward_backward_pipelining_with_interleaving.warmup": None,
    "PP:": None,
    "PP:F0": None,
    "PP:0F0x": None,
    "Forward": None,
    "forward": None,
    "Forward pass 3": None,
    "my_forward_step_hook": None,
    "model.py(3): forward_step": None,
    "Optimizer.zero_grad#AdamW.zero_grad": None,
    "ProfilerStep#3": None,
    "PP:99999999999999999999F0": [(None, "forward", 0)],
}


def test_names_of_others_and_what_says_nothing() -> None:
    assert said([*NAMES]) == NAMES
