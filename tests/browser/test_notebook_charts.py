"""Charts of a notebook are drawn without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import profframe
from profframe.pages import standalone
from tests import needs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GPU = Path(__file__).parent.parent.parent / "examples" / "gpu_training.json.gz"


def test_charts_are_drawn_without_a_network(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.modules("altair")
    from profframe.pages.plots import notebook_charts

    monkeypatch.setattr(notebook_charts, "_SCRIPT", notebook_charts._Script())
    trace = profframe.load(GPU)
    charts: list[Any] = [trace.plot.steps(), trace.plot.kernels()]
    outputs = [chart._repr_mimebundle_()["text/html"] for chart in charts]
    assert [len(output) > 800_000 for output in outputs] == [True, False]
    page = tmp_path / "page.html"
    page.write_text(standalone.page("two cells", "\n".join(reversed(outputs))), encoding="utf-8")

    context = chromium.new_context(offline=True)
    opened = context.new_page()
    requests: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(page.as_uri())
    opened.wait_for_function("document.querySelectorAll('.vega-embed svg.marks').length > 1")
    assert requests == [page.as_uri()]
    context.close()
