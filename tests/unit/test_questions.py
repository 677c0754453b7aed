"""Methods of a trace that only ask: each is its answer's header, as Python."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import profframe
from profframe import Trace
from profframe.query.arrangement import shared
from profframe.query.catalogue import catalogue, find
from profframe.trace import generated_questions
from scripts.questions import BY_HAND, module

DIFFERENT = {"memory_peak": ("top",)}
"""Parameters whose default depends on what each row is."""
NAMES = [answer.name for answer in catalogue()]


def test_the_module_is_what_the_headers_say() -> None:
    text = Path(generated_questions.__file__).read_text(encoding="utf-8")

    assert text == module(), "python scripts/questions.py > profframe/trace/generated_questions.py"


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_a_method_of_its_name(name: str) -> None:
    assert getattr(Trace, name).__name__ == name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_HAND])
def test_a_method_takes_what_the_header_declares(name: str) -> None:
    _, *parameters = inspect.signature(getattr(Trace, name)).parameters.values()

    answer = find(name)
    declared = [
        (one.name, tuple(json.loads(str(one.default))) if one.type == "JSON" else one.default)
        for one in answer.all_parameters
    ]
    own = {name for name, _ in declared}
    declared = [
        (name, None if name in DIFFERENT.get(answer.name, ()) else default)
        for name, default in declared
    ]
    declared += [(one.name, None) for one in shared(answer) if one.name not in own]
    declared += [("each", None), ("on", None)]
    assert [(parameter.name, parameter.default) for parameter in parameters] == declared


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_takes_order_number_and_columns(name: str) -> None:
    parameters = inspect.signature(getattr(Trace, name)).parameters
    assert name == "advice" or {"sort", "top", "columns"} <= parameters.keys()


FROZEN = {"op_idle_queue", "optimizable_events"}
"""What modules of torch have: for those who know them."""


def test_every_answer_is_on_a_screen() -> None:
    """A verb, a page, a chart or a tool asks it, or says its name."""
    package = Path(profframe.__file__).parent
    elsewhere = {package / "trace" / name for name in ("generated_questions.py", "trace.py")}
    elsewhere.add(package / "query" / "renamed.py")
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in package.rglob("*.py") if path not in elsewhere
    )
    unseen = {name for name in NAMES if not re.search(rf'"{name}"|\.{name}\(', text)}
    assert unseen == FROZEN
