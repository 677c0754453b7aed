"""The public surface is what is said of it."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import profframe
from profframe import errors


def error_classes() -> list[type[Exception]]:
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [c for c in found if issubclass(c, Exception) and c.__module__ == errors.__name__]


def drawn_tree() -> dict[str, int]:
    """Names of the tree in the docstring of errors.py, with their indent."""
    lines = inspect.cleandoc(errors.__doc__ or "").splitlines()
    found = (re.match(r"( +)(\w+Error)\b", line) for line in lines)
    return {match[2]: len(match[1]) // 2 - 2 for match in found if match}


def test_public_names_are_sorted_and_unique() -> None:
    assert profframe.__all__ == sorted(set(profframe.__all__))


@pytest.mark.parametrize("name", profframe.__all__)
def test_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(profframe, name)
    assert name in dir(profframe)
    assert isinstance(value, str) or inspect.getdoc(value)


def test_nothing_else_is_public() -> None:
    submodules = {path.stem for path in Path(profframe.__file__).parent.iterdir()}
    named = {name for name in vars(profframe) if name[0] not in "_@"}  # "@": pytest's own
    language = {"annotations", "import_module", "TYPE_CHECKING", "Final"}
    assert named - set(profframe.__all__) - submodules - language == set()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        profframe.no_such_name  # noqa: B018


@pytest.mark.parametrize("error", error_classes())
def test_error_is_public_and_drawn_where_it_stands(error: type[Exception]) -> None:
    bases = [base for base in error.__mro__ if issubclass(base, errors.ProfframeError)]
    depth = len(bases) - 1
    assert error.__name__ in profframe.__all__
    assert drawn_tree().get(error.__name__) == depth
    assert error.__doc__


def test_the_tree_draws_no_error_that_is_not() -> None:
    assert set(drawn_tree()) == {error.__name__ for error in error_classes()}


def test_version_is_the_same_everywhere(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    newest = re.search(r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert "version" not in project
    assert {newest[1], version("profframe")} == {profframe.__version__}
