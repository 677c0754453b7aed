"""Pictures of a report: ``python scripts/report_pictures.py`` writes docs/*.png."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import sync_playwright

import profframe

ROOT: Final = Path(__file__).resolve().parent.parent
DRAWN: Final = """
document.documentElement.dataset.ready
    && [...document.querySelectorAll("[data-chart]")].every((chart) => chart.dataset.drawn)
"""
PICTURES: Final[tuple[tuple[str, int, int, Literal["light", "dark"], str], ...]] = (
    ("report.png", 1280, 1100, "light", "overview"),
    ("report_narrow.png", 390, 780, "dark", "flame"),
    ("timeline.png", 1280, 760, "light", "timeline"),
)
"""File, width, height, theme, section at the top."""


def main() -> None:
    """Write the pictures."""
    browser = os.environ.get("PROFFRAME_CHROMIUM") or shutil.which("chromium")
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "report.html")
        trace = profframe.load("examples/gpu_training.json.gz")
        trace.report(page)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, width, height, theme, section in PICTURES:
            size: Any = {"width": width, "height": height}
            opened = chromium.new_page(viewport=size, color_scheme=theme)
            opened.goto(page.as_uri())
            opened.wait_for_function(DRAWN)
            if section != "overview":
                opened.evaluate(f"document.getElementById('{section}').scrollIntoView()")
            opened.wait_for_timeout(500)
            opened.screenshot(path=ROOT / "docs" / name)
        chromium.close()


if __name__ == "__main__":
    main()
