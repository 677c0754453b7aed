"""Pages of the repository that follow from the code: ``python -m scripts.pages`` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from scripts.pages import answers, devices, kernel_categories, questions, rules, tables

ROOT: Final = Path(__file__).parents[2]
PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "docs/devices.md": devices.page,
        "docs/kernel_categories.md": kernel_categories.page,
        "docs/questions.md": questions.page,
        "docs/rules.md": rules.page,
        "docs/tables.md": tables.page,
        "sql/README.md": answers.page,
    }
)

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
