"""Rows as a profiler records calls of ops, made from the arguments: for ops that no CPU can run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from profframe.facts.formulas import Formula
from profframe.facts.pipeline import add_facts
from tests.builders import event, tables

TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float8_e4m3fn: "c10::Float8_e4m3fn",
    torch.int64: "long int",
    torch.int32: "int",
    torch.bool: "bool",
}
NUMBERS = {torch.float32: 6, torch.bfloat16: 15, torch.float16: 5}
"""c10::ScalarType of some data types."""


def recorded(packet: Any, *args: Any, **kwargs: Any) -> dict[str, str]:
    """The columns of inputs for a call ``packet(*args, **kwargs)``, by the op's schema."""
    op = getattr(packet, packet.overloads()[0])
    others = op._schema.arguments[len(args) :]
    values = (*args, *(kwargs.get(one.name, one.default_value) for one in others))
    rows = [_argument(value) for value in values]
    columns = ("input_dims", "input_types", "input_strides", "concrete_inputs")
    return {
        name: json.dumps(list(column), separators=(",", ":"))
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
    }


def _argument(value: Any) -> tuple[Any, str, Any, str]:
    """Dims, type, strides and value of one argument."""
    if isinstance(value, torch.Tensor):
        return list(value.shape), TYPES[value.dtype], list(value.stride()), ""
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], torch.Tensor):
            shapes = [list(one.shape) for one in value]
            return shapes, "TensorList", [list(one.stride()) for one in value], ""
        return [], "ScalarList", [], str(list(value))
    if isinstance(value, torch.dtype):
        return [], "Scalar", [], str(NUMBERS[value])
    if isinstance(value, (bool, int, float)):
        return [], "Scalar", [], str(value)
    return [], "", [], ""


def measured(
    name: str, row: Mapping[str, Any], formulas: Mapping[str, Formula | None] | None = None
) -> tuple[int | None, int | None]:
    """FLOPs and bytes of an op with these columns, by the whole way of a trace."""
    events = add_facts(tables(event(name, 0, 1, **row)), formulas=formulas)["events"]
    flops, bytes_ = (events[column][0].as_py() for column in ("flops", "bytes"))
    return flops, bytes_
