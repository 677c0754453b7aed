"""Pages of ``docs/`` that follow from the code: ``python -m scripts.pages`` writes them anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from scripts.pages import answers, devices, kernel_categories, macros, questions, rules, tables

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "answers.md": answers.page,
        "devices.md": devices.page,
        "kernel_categories.md": kernel_categories.page,
        "macros.md": macros.page,
        "questions.md": questions.page,
        "rules.md": rules.page,
        "tables.md": tables.page,
    }
)

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
