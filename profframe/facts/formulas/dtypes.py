"""Data types by every name that profilers write, with their sizes and names in peak rates."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from profframe import schema
from profframe.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Dtype:
    """A data type.

    Attributes
    ----------
    word : str
        ``fp64 fp32 fp16 bf16 fp8 fp4 int8 ...``: the name in peak rates.
    size : int
        Bytes of one stored element.
    rank : int
        Rank in type promotion: 0 bool, 1 integers, 2 floating point, 3 complex.
    """

    word: str
    size: int
    rank: int

    @property
    def floats(self) -> bool:
        """Whether it holds floating-point numbers."""
        return self.rank >= _FLOAT


_BOOL, _INTEGER, _FLOAT, _COMPLEX = range(4)

BOOL: Final = Dtype("bool", 1, _BOOL)
INT8: Final = Dtype("int8", 1, _INTEGER)
INT16: Final = Dtype("int16", 2, _INTEGER)
INT32: Final = Dtype("int32", 4, _INTEGER)
INT64: Final = Dtype("int64", 8, _INTEGER)
UINT8: Final = Dtype("uint8", 1, _INTEGER)
UINT16: Final = Dtype("uint16", 2, _INTEGER)
UINT32: Final = Dtype("uint32", 4, _INTEGER)
UINT64: Final = Dtype("uint64", 8, _INTEGER)
INT4: Final = Dtype("int4", 1, _INTEGER)
FP4: Final = Dtype("fp4", 1, _FLOAT)
FP8: Final = Dtype("fp8", 1, _FLOAT)
FP16: Final = Dtype("fp16", 2, _FLOAT)
BF16: Final = Dtype("bf16", 2, _FLOAT)
FP32: Final = Dtype("fp32", 4, _FLOAT)
FP64: Final = Dtype("fp64", 8, _FLOAT)
COMPLEX32: Final = Dtype("complex32", 4, _COMPLEX)
COMPLEX64: Final = Dtype("complex64", 8, _COMPLEX)
COMPLEX128: Final = Dtype("complex128", 16, _COMPLEX)

_FP8_KINDS: Final = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")

DTYPES: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "bool": BOOL,
        **dict.fromkeys(("signed char", "char", "c10::qint8"), INT8),
        **dict.fromkeys(("unsigned char", "c10::quint8"), UINT8),
        **dict.fromkeys(("short int", "short"), INT16),
        **dict.fromkeys(("short unsigned int", "unsigned short"), UINT16),
        **dict.fromkeys(("int", "c10::qint32"), INT32),
        "unsigned int": UINT32,
        **dict.fromkeys(("long int", "long", "long long", "long long int", "__int64"), INT64),
        **dict.fromkeys(
            ("long unsigned int", "unsigned long", "unsigned long long", "unsigned __int64",
             "long long unsigned int"), UINT64),
        "float": FP32,
        "double": FP64,
        "c10::Half": FP16,
        "c10::BFloat16": BF16,
        **{f"c10::Float8_{kind}": FP8 for kind in _FP8_KINDS},
        "c10::Float4_e2m1fn_x2": FP4,
        "c10::complex<c10::Half>": COMPLEX32,
        "c10::complex<float>": COMPLEX64,
        "c10::complex<double>": COMPLEX128,
        **dict.fromkeys(("c10::quint4x2", "c10::bits4x2"), INT4),
        **dict.fromkeys(("c10::quint2x4", "c10::bits1x8", "c10::bits2x4", "c10::bits8"), UINT8),
        "c10::bits16": UINT16,
        **{f"c10::dummy_{sign}int1_7_t<{n}>": INT4 if n == 4 else INT8
           for sign in ("", "u") for n in range(1, 8)},
    }
)  # fmt: skip
"""Name of a type in C++, as profilers write it -> the type.

Types that pack several numbers in one element (``x2``, ``x4``) have the size of that element.
"""

SCALAR_TYPES: Final[Mapping[int, Dtype]] = MappingProxyType(
    {
        0: UINT8, 1: INT8, 2: INT16, 3: INT32, 4: INT64, 5: FP16, 6: FP32, 7: FP64, 8: COMPLEX32,
        9: COMPLEX64, 10: COMPLEX128, 11: BOOL, 12: INT8, 13: UINT8, 14: INT32, 15: BF16, 16: INT4,
        22: UINT16, 23: FP8, 24: FP8, 25: FP8, 26: FP8, 27: UINT16, 28: UINT32, 29: UINT64,
        44: FP8, 45: FP4,
    }
)  # fmt: skip
"""c10::ScalarType by number: how a profiler writes the ``dtype`` argument of an op."""

PEAK_NAMES: Final = tuple(name for name in schema.DTYPES if not name.endswith("_tensor"))
"""Names of the types with peaks that work can be compared with."""

_LIBRARIES: Final = re.compile(r"(torch|numpy|c10|at)(\.|::)")
_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("float64", "double", "f64"), "fp64"),
        **dict.fromkeys(("float32", "float", "single", "f32"), "fp32"),
        **dict.fromkeys(("float16", "half", "f16"), "fp16"),
        "bfloat16": "bf16",
        **dict.fromkeys(("qint8", "signed char", "char", "i8"), "int8"),
        "tensorfloat32": "tf32",
    }
)
"""Other names of the types that devices have a peak for; `float32` is not `tf32`."""
_PEAK_PATTERNS: Final = (
    (re.compile(r"(float8|(mx)?fp8|f8)(_\w+)?|e4m3\w*|e5m2\w*|e8m0\w*"), "fp8"),
    (re.compile(r"(float6|(mx)?fp6|f6)(_\w+)?|e2m3\w*|e3m2\w*"), "fp6"),
    (re.compile(r"(float4|(nv|mx)?fp4|f4)(_\w+)?|e2m1\w*"), "fp4"),
)
_WITHOUT_PEAK: Final = re.compile(
    r"q?u?int\d*(_t)?|[iu]\d+|bool|byte|short|long( int)?|(c(omplex|float|double|half)|bits)\w*"
)
"""Other types that torch has: no name of a type with a peak is meant by them."""
_SHOWN: Final = ("float64", "float32", "float16", "half", "bfloat16", "float8_e4m3fn")


def peak_name(dtype: object, choices: Collection[str] = PEAK_NAMES) -> str:
    """The name in peak rates of a data type, by any name that users may give.

    Parameters
    ----------
    dtype
        A name of profframe, torch, NumPy or C++, or an object of torch or NumPy.
    choices
        Names that it may become.

    Returns
    -------
    str
        One of the choices.

    Raises
    ------
    UnknownNameError
        It is none of them; the message lists the names.

    Examples
    --------
    >>> [peak_name(name) for name in ("float32", "torch.bfloat16", "half", "float8_e4m3fn")]
    ['fp32', 'bf16', 'fp16', 'fp8']
    """
    text = f"{dtype.__module__}.{dtype.__name__}" if isinstance(dtype, type) else str(dtype)
    word = _LIBRARIES.sub("", text.strip().lower(), count=1)
    matches = (name for pattern, name in _PEAK_PATTERNS if pattern.fullmatch(word))
    name = _OTHER_NAMES.get(word) or next(matches, word)
    if name in choices:
        return name
    names = f"(known: {', '.join(choices)}, and torch's names, such as {', '.join(_SHOWN)})"
    if _WITHOUT_PEAK.fullmatch(word):
        raise UnknownNameError(f"no device has a peak for {text!r:.60} {names}")
    # What is meant begins alike: `tf32` is no slip of `i32`.
    alike = (name for name in (*choices, *_OTHER_NAMES, *_SHOWN) if name[:1] == word[:1])
    near = difflib.get_close_matches(word, alike, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UnknownNameError(f"no dtype named {text!r:.60}{hint} {names}")
