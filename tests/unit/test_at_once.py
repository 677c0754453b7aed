"""Questions that are asked at the same time."""

from __future__ import annotations

import os
import threading

import pytest

from profframe import Trace
from profframe.query import plans
from profframe.trace.at_once import at_once
from tests.builders import event, loaded


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


@pytest.fixture
def trace() -> Trace:
    return loaded(event("a", 0, 10), event("b", 20, 30))


def test_two_questions_about_few_rows_run_at_the_same_time(trace: Trace) -> None:
    both = threading.Barrier(2, timeout=30)
    with at_once(trace) as begin:
        values = [begin(both.wait), begin(both.wait)]
        assert sorted(value() for value in values) == [0, 1]


def test_of_many_rows_a_question_is_asked_when_its_value_is_wanted(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "MOST_ROWS", 1)
    threads = list[int]()
    with at_once(trace) as begin:
        value = begin(lambda: threads.append(threading.get_ident()))
        assert threads == []
        value(), value()
    assert threads == [threading.get_ident()]


def test_an_error_is_raised_where_the_value_is_wanted(trace: Trace) -> None:
    with at_once(trace) as begin:
        value, other = begin(lambda: 1 // 0), begin(lambda: 1)
        with pytest.raises(ZeroDivisionError):
            value()
        assert other() == 1


def test_after_an_error_no_other_question_begins(trace: Trace) -> None:
    go, begun = threading.Event(), list[bool]()

    def wait() -> None:
        begun.append(go.wait(30))

    def fail() -> None:
        with at_once(trace) as begin:
            for _ in range(9):
                begin(wait)
            threading.Timer(0.05, go.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(begun) <= 4
