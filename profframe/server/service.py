"""The service behind the server: one question at a time, pages within a budget, plain errors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from profframe.errors import ParameterError, ProfframeError
from profframe.server.paging import (
    DEFAULT_TOKENS,
    LEAST_TOKENS,
    MOST_TOKENS,
    Offsets,
    failure,
    page,
)
from profframe.server.tool_result import Result
from profframe.server.tools import QuestionLimits, Subject
from profframe.system.interrupts import within
from profframe.system.memory_limit import is_memory_error, refusal_message
from profframe.trace.trace import Trace

KEPT_PAGES: Final = 16
"""Results that can be paged through at a time."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """One reply: text within the budget, maybe a picture."""

    text: str
    picture: bytes | None = None
    is_error: bool = False


class Service:
    """Replies to a program about one trace, and keeps the next pages of the latest results.

    Questions wait for one another, so that they share the memory that they may take.

    Parameters
    ----------
    trace
        What is subject.
    limits
        Most that a question may take.

    Examples
    --------
    >>> from profframe import load
    >>> from profframe.server import tools
    >>> service = Service(load("examples/cpu_training.json.gz"))
    >>> query = "SELECT count(*) AS events FROM events"
    >>> print(service.reply(lambda subject: tools.sql(subject, query)).text.splitlines()[-2])
    [6244]
    """

    def __init__(self, trace: Trace, limits: QuestionLimits | None = None) -> None:
        self._limits = limits or QuestionLimits()
        self._subject = Subject.of(trace, self._limits)
        self._lock = threading.Lock()
        self._pages = OrderedDict[str, tuple[Result, Offsets]]()
        self._last_page = 0

    def reply(
        self, question: Callable[[Subject], Result], budget: int = DEFAULT_TOKENS
    ) -> ToolReply:
        """The first page of what a tool finds.

        Parameters
        ----------
        question
            Calls a tool of `profframe.server.tools`.
        budget
            Most tokens of the text.

        Returns
        -------
        Reply
            Never an exception: what goes wrong is a sentence.
        """
        return self._answered(lambda: (question(self._subject), None), budget)

    def more(self, page_name: str, budget: int = DEFAULT_TOKENS) -> ToolReply:
        """The next page of a result.

        Parameters
        ----------
        page_name
            As the page before calls it.
        budget
            Most tokens of the text.

        Returns
        -------
        Reply
            A sentence if the page is no longer kept.
        """

        def kept() -> tuple[Result, Offsets]:
            if page_name not in self._pages:
                raise ParameterError(
                    f"no page {page_name!r} is kept, because only the latest {KEPT_PAGES} are; ask "
                    "again"
                )
            return self._pages[page_name]

        return self._answered(kept, budget)

    def _answered(self, ask: Callable[[], tuple[Result, Offsets | None]], budget: int) -> ToolReply:
        try:
            _check(budget)
            with self._lock, within(self._limits.timeout_s):
                result, offsets = ask()
                name = f"p{self._last_page + 1}"
                shown = page(result, budget, f'more(page="{name}")', offsets)
                if shown.next is not None:
                    self._keep(name, result, shown.next)
        except (TimeoutError, KeyboardInterrupt) as error:
            is_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, KeyboardInterrupt) and is_main:  # else it is of the limit, too
                raise
            return ToolReply(failure(_too_long(self._limits.timeout_s)), is_error=True)
        except Exception as error:  # noqa: BLE001 - all become sentences
            return ToolReply(failure(sentence(error)), is_error=True)
        return ToolReply(shown.text, result.picture)

    def _keep(self, name: str, result: Result, offsets: Offsets) -> None:
        self._last_page += 1
        self._pages[name] = result, offsets
        while len(self._pages) > KEPT_PAGES:
            self._pages.popitem(last=False)


def _check(budget: int) -> None:
    if not LEAST_TOKENS <= budget <= MOST_TOKENS:
        raise ParameterError(
            f"budget: from {LEAST_TOKENS:,} to {MOST_TOKENS:,} tokens, not {budget:,}"
        )


def _too_long(seconds: float | None) -> str:
    return (
        f"the question took longer than the limit of {seconds:g} s (profframe ask --timeout): ask "
        "about a part, such as one run, rank or step, or raise the limit"
    )


def sentence(error: Exception) -> str:
    """An error as one sentence.

    Examples
    --------
    >>> sentence(ParameterError("budget: too small")), sentence(KeyError("a"))
    ('budget: too small', "internal: KeyError: 'a' (please report)")
    """
    if isinstance(error, ProfframeError):
        return str(error)
    if is_memory_error(error):
        return refusal_message()
    return f"internal: {type(error).__name__}: {error} (please report)"
