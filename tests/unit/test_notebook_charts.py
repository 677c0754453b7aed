"""Which cell of a notebook brings the script that draws, and whose charts it draws."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests import needs

needs.modules("altair")

import altair as alt  # noqa: E402

from profframe.pages.plots import drawing, notebook_charts  # noqa: E402
from profframe.pages.plots.notebook_charts import _Script, bundle  # noqa: E402


@pytest.fixture(autouse=True)
def renderer() -> Any:
    was = alt.renderers.active
    alt.renderers.enable("default")
    yield
    alt.renderers.enable(was)


def test_a_renderer_that_the_user_has_chosen_stays() -> None:
    alt.renderers.enable("mimetype")
    with drawing():
        pass
    assert alt.renderers.active == "mimetype"
    alt.renderers.enable("default")
    with drawing():
        pass
    assert alt.renderers.active == notebook_charts.NAME


@pytest.mark.parametrize(
    ("cells", "scripts"),
    [
        (["a", "b", "a", "b"], [True, False, True, False]),
        ([None, None], [True, False]),
        (["a", None, "a"], [True, False, True]),
    ],
)
def test_one_cell_has_the_script_also_when_it_runs_again(
    cells: list[str | None], scripts: list[bool]
) -> None:
    script = _Script()
    assert [bool(script.for_cell(cell)) for cell in cells] == scripts


def test_names_of_a_trace_end_no_script() -> None:
    hostile = "</script><script>alert(1)</script>"
    html = bundle({"title": hostile, "mark": "bar"})["text/html"]
    assert hostile not in html
    (spec,) = re.findall(r"const chart = (.*);\n", html)
    assert json.loads(spec)["title"] == hostile
