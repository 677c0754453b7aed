"""Names of kernels as people read them: the function, without types and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "gaps": ("before_name", "after_name"),
        "graph_layers": ("sequence",),
        "kernel_overlap": ("name",),
        "kernels": ("name",),
        "kernels.launch": ("name",),
        "op_kernels": ("sequence",),
        "sequences": ("sequence",),
        "stragglers": ("before_kernel",),
    }
)
"""Columns of answers that have names of kernels."""
_SHOWN: Final = ("then came",)
"""Columns of excerpts that have names of kernels."""
ARROW: Final = " -> "
"""Separator of the kernels of a sequence."""

_CLONE: Final = re.compile(r"->|\[clone [^\]]*\]")
_INNERMOST: Final = re.compile(r"<[^<>()]*>|\([^<>()]*(?:(?:<<|>>|[<>])=?[^<>()]*)?\)")
"""Brackets without others in them: a single < or > in round ones compares or shifts."""
_HLO: Final = re.compile(r"(%?[\w.-]+) = ", re.ASCII)
"""An instruction of HLO, with its result first."""
_RETURNS: Final = re.compile(r"void +(\S+)", re.ASCII)
_REST: Final = re.compile(r"[<(].*| const *$", re.DOTALL)
_MANGLED: Final = re.compile(r"_ZN?L?(?=\d)")
_LENGTH: Final = re.compile(r"L?(\d{1,4})")
_UNNAMED: Final = "_GLOBAL__N_"
_TENSILE: Final = re.compile(r"(\w*Cijk_\w+?_MT\d+x\d+x\d+(?:_MI\d+x\d+x\d+)?)_\w+")
_CUTE: Final = re.compile(r"(\w*kernel_cutlass_\w+?)_object_at_\w*")
"""What follows the name proper in names from Tensile and CuTe: a hundred settings, addresses."""
_ENTRY: Final = re.compile(r"_ZN7ck_tile6kentryI(?:L\w\d+E)*NS_(\d{1,4})")
"""The entry of all kernels of Composable Kernel: the first type says which one it is."""
_GENERAL: Final = "void|const|unsigned|anonymous|namespace|lambda|operator"
_WORD: Final = re.compile(
    rf"\b(?!(?:{_GENERAL})\b)(?:[A-Za-z]\w{{1,39}}|\d{{1,9}})\b(?!::)", re.ASCII
)
"""A word of a template's arguments that people know one by, or a number; no namespace."""
_MOST_ALIKE: Final = 200
_MOST_WORDS: Final = 80
_MOST_PICKED: Final = 3
_NO_KERNEL: Final = re.compile(r"Mem(cpy|set)\b")
_DEPTH: Final = 60


def short_name(name: str) -> str:
    """A kernel's function, like the macro `short_name`.

    Names made by a linker or a generator become what people call the kernel, and an instruction of
    HLO the name of its result. Copies, fills, and other names without brackets stay as they are.

    Examples
    --------
    >>> short_name("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64EEEvPT0_i")
    'aiter::add_rmsnorm_quant_kernel'
    >>> short_name("Cijk_Alik_Bljk_BBS_BH_MT128x256x32_MI16x16x1_SN_LDSB1_AFC1")
    'Cijk_Alik_Bljk_BBS_BH_MT128x256x32_MI16x16x1'
    >>> short_name("void at::native::(anonymous namespace)::gemm<float, (bool)1>(int)")
    'at::native::gemm'
    >>> short_name('%call.1 = f32[8] custom-call(%p0), custom_call_target="own"')
    '%call.1'
    >>> short_name("Memcpy HtoD (Pinned -> Device)")
    'Memcpy HtoD (Pinned -> Device)'
    """
    if instruction := _HLO.match(name):
        return instruction[1]
    is_cpp = name.isascii() and name.isprintable() and ("<" in name or "(" in name)
    if not is_cpp:
        return _generated(name)
    if _NO_KERNEL.match(name):
        return name
    text = _CLONE.sub("", name)
    for _ in range(_DEPTH):
        text, number = _INNERMOST.subn("", text)
        if not number:
            break
    words = _REST.sub("", text, count=1).split()
    if not words:
        return name
    return re.sub(r"::(::)+", "::", words[-1]).lstrip(":") or name


def _generated(name: str) -> str:
    """The words of a mangled name, or a generated name without its settings."""
    if function := _RETURNS.fullmatch(name):
        return function[1]
    if match := _TENSILE.fullmatch(name) or _CUTE.fullmatch(name):
        return match[1]
    if entry := _ENTRY.match(name):
        return f"ck_tile::kentry<{name[entry.end() : entry.end() + int(entry[1])]}>"
    begin = _MANGLED.match(name)
    if begin is None or not name.isascii():
        return name
    parts, at = [], begin.end()
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[1])
        parts.append(name[length.end() : at])
    whole = [part for part in parts if not part.startswith(_UNNAMED)]
    return "::".join(whole) if whole and at <= len(name) else name


def shortened(frame: pl.DataFrame, *columns: str, kernels: pl.Expr | None = None) -> pl.DataFrame:
    """A frame with short names in some columns, where ``kernels`` holds or everywhere."""
    import polars as pl

    changed = []
    for column in columns:
        if frame.schema.get(column) != pl.String:
            continue
        names = frame[column].drop_nulls().unique().to_list()
        short = {
            name: text
            for name in names
            if (text := ARROW.join(map(short_name, name.split(ARROW)))) != name
        }
        if short:
            replaced = pl.col(column).replace(short)
            changed.append(
                replaced
                if kernels is None
                else pl.when(kernels).then(replaced).otherwise(pl.col(column)).alias(column)
            )
    return frame.with_columns(changed)


def disambiguated(
    frame: pl.DataFrame, column: str = "name", kernels: pl.Expr | None = None
) -> pl.DataFrame:
    """Replace kernel names in a column by distinct short names.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"name": ["void g<1>()", "void f<2>()", "void g<3>()", "void g<1>()"]})
    >>> disambiguated(rows)["name"].to_list()
    ['g [1]', 'f', 'g [3]', 'g [1]']
    """
    import polars as pl

    if frame.schema.get(column) != pl.String:
        return frame
    is_kernel = pl.lit(True) if kernels is None else kernels
    rows = frame.filter(is_kernel).select(name=column)
    names = rows["name"].drop_nulls().unique(maintain_order=True).to_list()
    short = apart(rows, {name: text for name in names if (text := short_name(name)) != name})
    changed = pl.when(is_kernel).then(pl.col(column).replace(short)).otherwise(pl.col(column))
    return frame.with_columns(changed.alias(column)) if short else frame


def candidates(frame: pl.DataFrame) -> dict[str, str]:
    """Texts of a frame that would change if they are names of kernels, with their short form."""
    import polars as pl

    return {
        part: short
        for column in frame
        if column.dtype == pl.String
        for text in column.drop_nulls().unique().to_list()
        for part in (text, *text.split(ARROW))
        if (short := short_name(part)) != part
    }


def apart(frame: pl.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Distinct short names; equal ones get distinguishing words of their full names.

    These are words that only one of the names has, functors rather than numbers. Without such
    words, the names are numbered in their order.

    Examples
    --------
    >>> import polars as pl
    >>> names = {"void f<4, Add<int>>()": "f", "void f<4, Mul<int>>()": "f", "void g<1>()": "g"}
    >>> apart(pl.DataFrame({"name": [*names]}), names)
    {'void f<4, Add<int>>()': 'f [Add]', 'void f<4, Mul<int>>()': 'f [Mul]', 'void g<1>()': 'g'}
    """
    import polars as pl

    if frame.schema.get("name") != pl.String:
        return dict(names)
    groups: dict[str, list[str]] = {}
    for name in frame["name"].drop_nulls().unique(maintain_order=True).to_list():
        groups.setdefault(names.get(name, name), []).append(name)
    texts = dict(names)
    for text, group in groups.items():
        if len(group) > 1:
            words = _words_apart(group)
            texts |= {
                name: f"{text} [{words[name]}]" if name in words else f"{text} #{place}"
                for place, name in enumerate(group, 1)
                if name in names
            }
    return texts


def _words_apart(names: Sequence[str]) -> dict[str, str]:
    """For each name the words that no other name has all of, if there are so few."""
    if len(names) > _MOST_ALIKE:
        return {}
    words = {name: [*dict.fromkeys(_WORD.findall(name))][:_MOST_WORDS] for name in names}
    having: dict[str, int] = {}  # the names with a word, a bit each
    for place, name in enumerate(names):
        for word in words[name]:
            having[word] = having.get(word, 0) | 1 << place
    chosen = {name: _chosen(words[name], having, 1 << place) for place, name in enumerate(names)}
    return {name: " ".join(picked) for name, picked in chosen.items() if picked}


def _chosen(words: Sequence[str], having: Mapping[str, int], own: int) -> list[str]:
    """The fewest words that only ``own`` has together; none if that takes too many."""
    picked: list[str] = []
    left = -1
    for are_numbers in (False, True):
        fitting = [word for word in words if word[0].isdecimal() == are_numbers]
        while left != own and len(picked) < _MOST_PICKED and fitting:
            best = min(fitting, key=lambda word: (left & having[word]).bit_count())
            if left & having[best] == left:
                break
            picked.append(best)
            left &= having[best]
    return picked if left == own else []


def replaced(frame: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """A frame with these texts replaced, also between arrows.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"sequence": ["void f<int>() -> g"]})
    >>> replaced(rows, {"void f<int>()": "f"}).item()
    'f -> g'
    """
    import polars as pl

    changed = []
    for column in frame if names else ():
        if column.dtype != pl.String:
            continue
        texts = column.drop_nulls().unique().to_list()
        short = {
            text: names.get(text) or ARROW.join(names.get(p, p) for p in text.split(ARROW))
            for text in texts
        }
        changed.append(pl.col(column.name).replace(short))
    return frame.with_columns(changed)


def of_answer(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of an answer with short names of kernels; different names stay different."""
    import polars as pl

    if "kind" in rows.columns:
        rows = disambiguated(rows, kernels=pl.col("kind") == "kernel")
    if "name" in COLUMNS.get(name, ()):
        rows = disambiguated(rows)
    return shortened(rows, *COLUMNS.get(name, ()), *_SHOWN)
