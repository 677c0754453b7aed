"""Short names of drawn names of functions: what was put in is what comes out."""

from __future__ import annotations

from functools import cache
from typing import Final

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from profframe.query.macros import load
from profframe.show.kernel_names import short_name
from tests.cases import bare

WORDS = st.sampled_from(["gemm", "kernel_2", "at::native::f", "ns::(anonymous namespace)::g"])
TYPES = st.recursive(
    st.sampled_from(
        ["int", "float const*", "__half", "(bool)1", "(N > 4)", "((3)<=(x))", "(1 << 2)"]
    ),
    lambda inner: st.builds(
        lambda name, args: f"{name}<{', '.join(args)}>",
        st.sampled_from(["A", "std::pair", "decltype(a->b)::type", "at::{lambda(int)#1}::T"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)
RETURNS = st.sampled_from(["", "void ", "typename std::enable_if<!(N > 4), void>::type "])


@given(
    RETURNS, WORDS, st.lists(TYPES, min_size=1, max_size=3), st.lists(TYPES, max_size=2), st.data()
)
def test_of_a_function(
    result: str, name: str, arguments: list[str], parameters: list[str], data: st.DataObject
) -> None:
    brackets = f"<{', '.join(arguments)}>"
    whole = f"{result}{name}{brackets}({', '.join(parameters)})"
    own = name.replace("(anonymous namespace)::", "")
    assert short_name(whole) == own
    cut = whole[: data.draw(st.integers(len(result) + len(name) + 1, len(whole)))]
    for text in (whole, cut):
        assert in_sql(text) == short_name(text)


@given(st.from_regex(r"%[a-z][a-z-]{0,9}\.[0-9]{1,3}", fullmatch=True), st.text(max_size=20))
def test_of_an_instruction_of_hlo(name: str, rest: str) -> None:
    whole = f'{name} = f32[8,128]{{1,0}} custom-call(%p0), custom_call_target="{rest}"'
    assert short_name(whole) == in_sql(whole) == name


_QUERY: Final = "SELECT short_name('kernel', $name)"


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One that has the macro."""
    made = bare()
    load(made, _QUERY)
    return made


def in_sql(name: str) -> str:
    ((text,),) = connection().execute(_QUERY, {"name": name}).fetchall()
    return str(text)
