"""Calls of ops as a profiler records them: each argument is its sizes, type and value."""

from __future__ import annotations

from typing import Any

from profframe.facts.formulas import Op
from profframe.facts.formulas.dtypes import FP32

Argument = tuple[Any, str, str]


def f(*shape: int) -> Argument:
    return list(shape), "float", ""


def h(*shape: int) -> Argument:
    return list(shape), "c10::BFloat16", ""


def long(*shape: int) -> Argument:
    return list(shape), "long int", ""


def truth(*shape: int) -> Argument:
    return list(shape), "bool", ""


def byte(*shape: int) -> Argument:
    return list(shape), "signed char", ""


def fp8(*shape: int) -> Argument:
    return list(shape), "c10::Float8_e4m3fn", ""


def listed(*shapes: list[int]) -> Argument:
    return list(shapes), "TensorList", ""


def v(value: object) -> Argument:
    return [], "ScalarList" if isinstance(value, list) else "Scalar", str(value)


NONE: Argument = ([], "", "")


def op_of(name: str, *arguments: Argument) -> Op:
    dims, types, values = (list(column) for column in zip(*arguments, strict=True))
    return Op(name, dims, types, [], values, FP32)


def full(name: str) -> str:
    """Names without a namespace are torch's, but for those of autograd functions."""
    return name if "::" in name or name[0].isupper() or name in OTHERS else f"aten::{name}"


OTHERS = {
    "flex_attention", "flex_attention_backward", "_Linear", "_LayerNormLinear", "_LayerNormMLP",
    "_GroupedLinear",
}  # fmt: skip
