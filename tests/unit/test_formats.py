"""The table of formats is whole, and lists of formats elsewhere have no others."""

from __future__ import annotations

import pytest

from profframe.readers import foreign, sqlite
from profframe.readers.formats import FORMATS, JOINED_FORMATS, contents_of, format_of_text
from profframe.trace.file_summaries import VIEWS
from tests.conftest import ROOT

FILES = {name: form for name, form in FORMATS.items() if name != "torch"}
"""Formats of files."""


@pytest.mark.parametrize("name", FILES)
def test_each_format_has_a_reader(name: str) -> None:
    assert callable(FORMATS[name].module.read)


def test_words_of_formats_differ() -> None:
    assert len({form.words for form in FORMATS.values()}) == len(FORMATS)


def test_what_has_no_work_has_a_view() -> None:
    assert VIEWS.keys() == contents_of(FORMATS) - {"work"}


def test_only_files_without_work_join_a_trace() -> None:
    joined = {"execution_trace", "flight_recorder", "memory_snapshot", "nccl_inspector"}
    assert joined == JOINED_FORMATS
    assert "work" not in contents_of(JOINED_FORMATS)


def test_formats_that_nobody_knows_may_have_work() -> None:
    assert contents_of([]) == set()
    assert contents_of([None, "of a later release", "kineto"]) == {"work"}


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"schemaVersion": 1, "traceEvents": [', "kineto"),
        (b'\xef\xbb\xbf[{"ph": "X"', "chrome"),
        (b"[[1, 2, 3, 0], [", "memory_timeline"),
        (sqlite.MAGIC, None),
        (b"# a text", None),
    ],
)
def test_a_beginning_tells_the_format(head: bytes, name: str | None) -> None:
    assert format_of_text(head) == name


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"kineto"}))
def test_a_refusal_and_the_guide_name_it(name: str) -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    for text in (foreign._READS, guide):
        missing = [w for w in FORMATS[name].words.lower().split()[:2] if w not in text.lower()]
        assert missing == []
