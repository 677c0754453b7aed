"""Pages in a headless Chromium: what they say on the console, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from tests import needs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

QUIET: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Opened:
    """A page, what went wrong in it, and what it asked for."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def asked(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.requests.append(request.url)

    def all_drawn(self) -> None:
        """Wait until every chart is drawn."""
        drawn = "[...document.querySelectorAll('[data-chart]')].every((c) => c.dataset.drawn)"
        self.page.wait_for_function(f"document.documentElement.dataset.ready && {drawn}")

    def resized(self, width: int, scheme: Literal["light", "dark"]) -> None:
        """As in another window, drawn anew."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_timeout(300)
        self.all_drawn()

    def run(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.run(wide))


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = needs.chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*QUIET])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Open]:
    """Open a file: `opened(path, width=390, scheme="dark")`."""
    contexts = []

    def open_it(
        path: Path, width: int = 1280, scheme: Literal["light", "dark"] = "light"
    ) -> Opened:
        size: Any = {"width": width, "height": 900}
        context = chromium.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        it = Opened(context.new_page())
        it.page.set_default_timeout(20_000)
        it.page.on("console", it.heard)
        it.page.on("pageerror", lambda error: it.problems.append(f"uncaught: {error}"))
        it.page.on("request", it.asked)
        it.page.goto(path.resolve().as_uri())
        it.all_drawn()
        it.requests.remove(path.resolve().as_uri())
        return it

    yield open_it
    for context in contexts:
        context.close()
