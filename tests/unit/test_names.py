"""Variables are nouns of the field: these words say nothing of what a value is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.members import in_one

PACKAGE: Final = Path("profframe")
EMPTY_WORDS: Final = frozenset(("found", "known", "asked", "said", "told"))


def names(tree: ast.AST) -> Iterator[str]:
    """Whatever the file gives a name."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.alias(asname=str(name))
            ):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.MatchAs(name=str(name)):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@in_one(sorted(PACKAGE.rglob("*.py")))
def test_names_say_what_a_value_is(path: Path) -> None:
    given = set(names(ast.parse(path.read_text(encoding="utf-8"))))
    assert not {name for name in given if name.strip("_").lower() in EMPTY_WORDS}
