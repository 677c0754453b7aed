from __future__ import annotations

import pytest

from profframe.facts.pipeline import add_facts
from tests.builders import event, tables


def flops(
    name: str, dims: str | None, values: str | None = None, header: str | None = '{"with_flops": 1}'
) -> int | None:
    source = tables(
        event(name, 0, 1, input_dims=dims, concrete_inputs=values),
        header={"profiler_flags": header},
    )
    (count,) = add_facts(source)["events"]["torch_flops"].to_pylist()
    assert count is None or isinstance(count, int)
    return count


CONV = "[[2,4,9,8],[6,4,3,2],[6],[],[],[],[]]"


@pytest.mark.parametrize(  # numbers that torch 2.13 gave
    ("name", "dims", "values", "expected"),
    [
        ("aten::mm", "[[5,7],[7,3]]", None, 210),
        ("aten::addmm", "[[5,3],[5,7],[7,3],[],[]]", None, 210),
        ("aten::bmm", "[[4,5,7],[4,7,3]]", None, 840),
        ("aten::baddbmm", "[[4,5,3],[4,5,7],[4,7,3],[],[]]", None, 840),
        ("aten::mul", "[[5,7],[]]", None, 35),
        ("aten::mul", "[[],[5,7]]", None, 1),
        ("aten::add", "[[5,7],[5,7],[]]", None, 35),
        ("aten::conv2d", CONV, '["","","","[2, 2]","[1, 1]","[1, 1]","1"]', 14400),
        ("aten::conv2d", CONV, '["","","","[2, 1]","[0, 1]","[1, 2]","1"]', 18432),
        (
            "aten::conv2d",
            "[[2,4,9,8],[6,2,3,2],[6],[],[],[],[]]",
            '["","","","[1, 1]","[0, 0]","[1, 1]","2"]',
            14112,
        ),
        ("aten::conv2d", CONV, '["","","","[1, 1]","same","[1, 1]","1"]', 0),
        ("aten::conv2d", CONV, '["","","","[2, 2]","[1]","[1, 1]","1"]', 0),
        (
            "aten::conv2d",
            "[[4,9,8],[6,4,3,2],[6],[],[],[],[]]",
            '["","","","[1, 1]","[0, 0]","[1, 1]","1"]',
            0,
        ),
        ("aten::mm", "[[0,5],[5,2]]", None, 0),
        ("aten::mm", "[[5,0],[0,2]]", None, 0),
        ("aten::bmm", "[[0,5,7],[0,7,3]]", None, 0),
    ],
)
def test_formulas(name: str, dims: str, values: str | None, expected: int) -> None:
    assert flops(name, dims, values) == expected


def test_shapes_that_are_missing_or_foreign_count_nothing() -> None:
    assert flops("aten::mm", None) == 0
    assert flops("aten::mm", '"8,16;16,4"') == 0


def test_no_formula_no_number() -> None:
    assert flops("aten::relu", "[[5,7]]") is None


@pytest.mark.parametrize("header", [None, "{}", '{"with_flops": 0}', '{"record_shapes": 1}'])
def test_only_where_the_profile_was_taken_with_flops(header: str | None) -> None:
    assert flops("aten::mm", "[[5,7],[7,3]]", header=header) is None
