"""What must hold of the built site: links lead somewhere, and nothing is asked of another host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADED: Final = {
    "audio": ("src",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""Attributes of which a browser loads what they name, without a click."""
_NO_REQUEST: Final = frozenset({"canonical", "license", "next", "prev", "index", "search"})
"""Relations of ``<link>`` that load nothing."""
_HOST: Final = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLE: Final = re.compile(r"""(?:url\(\s*|@import\s+)['"]?([^'")\s]+)""", re.IGNORECASE)


@dataclass
class _Page(HTMLParser):
    """Names that can be linked to, links, what is loaded, and the text of styles."""

    names: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    in_style: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        self.names |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if not (tag == "link" and _NO_REQUEST & {*said.get("rel", "").split()}):
            self.loaded += [said[name] for name in _LOADED.get(tag, ()) if name in said]
        if "style" in said:
            self.styles.append(said["style"])

    def handle_endtag(self, tag: str) -> None:
        self.in_style = self.in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.styles.append(data)


def faults(site: Path, wanted: Iterable[str] = ()) -> list[str]:
    """What is wrong with a site, a line each; nothing if it is sound.

    Parameters
    ----------
    site
        Folder of the built site.
    wanted
        Pages that must be there.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = [f"{page}: is not there" for page in wanted if site / page not in pages]
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [f"{here}: {wrong}" for wrong in _broken(path, page, pages)]
        asked = [one for one in page.loaded if _HOST.match(one)]
        asked += [one for style in page.styles for one in _hosts(style)]
        found += [f"{here}: asks another host for {one}" for one in asked]
    for sheet in sorted(site.rglob("*.css")):
        asked = [*_hosts(sheet.read_text(encoding="utf-8"))]
        found += [f"{sheet.relative_to(site)}: asks another host for {one}" for one in asked]
    return found


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _broken(path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in {*page.links, *(one for one in page.loaded if not _HOST.match(one))}:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            yield f"{link} leads nowhere"
        elif parts.fragment and unquote(parts.fragment) not in _names(target, pages):
            yield f"{link}: there is no such place on that page"


def _names(target: Path, pages: dict[Path, _Page]) -> set[str]:
    return pages[target].names if target in pages else set()


def _hosts(style: str) -> Iterator[str]:
    return (one for one in _IN_STYLE.findall(style) if _HOST.match(one))
