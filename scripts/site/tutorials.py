"""A page for each script of ``examples/`` that is a notebook: run, with what it gives."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from scripts.site import markup

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ORDER: Final = (
    "first_look",
    "self_times",
    "idle",
    "memory",
    "roofline",
    "two_runs",
    "thousand_runs",
)
"""Words in the names of the scripts, in the order in which they are read."""

_LARGEST: Final = 200_000
"""Bytes of a drawing; one with more marks is a picture of dots."""
_CELL: Final = re.compile(r"^# %%", re.MULTILINE)
_VEGA_LITE: Final = re.compile(r"application/vnd\.vegalite\..*json")
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Tutorial:
    """One script."""

    path: Path

    @property
    def name(self) -> str:
        """Name of its page."""
        return self.path.stem


def tutorials(examples: Path) -> list[Tutorial]:
    """The scripts that are notebooks, in the order in which they are read.

    Parameters
    ----------
    examples
        Their folder.
    """
    found = [path for path in examples.glob("*.py") if _CELL.search(path.read_text("utf-8"))]

    def place(path: Path) -> tuple[int, str]:
        words = (i for i, word in enumerate(ORDER) if word in path.stem)
        return next(words, len(ORDER)), path.stem

    return [Tutorial(path) for path in sorted(found, key=place)]


@contextmanager
def shell(folder: Path) -> Iterator[InteractiveShell]:
    """What cells run in, and charts come out of as specifications; nothing is kept of it.

    Parameters
    ----------
    folder
        Its own, in place of the user's.
    """
    import altair as alt
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config({"HistoryManager": {"enabled": False}})
    module = ModuleType("tutorial")
    made = InteractiveShell.instance(config=config, ipython_dir=str(folder), user_module=module)
    try:
        with alt.renderers.enable("mimetype"):
            yield made
    finally:
        made.restore_sys_module_state()  # type: ignore[no-untyped-call]
        InteractiveShell.clear_instance()


def page(tutorial: Tutorial, folder: Path, shell: InteractiveShell) -> str:
    """Run a script, and give its page.

    Parameters
    ----------
    tutorial
        The script.
    folder
        Where its pictures are written.
    shell
        What it runs in; what it knew before is forgotten.

    Raises
    ------
    RuntimeError
        A cell failed.
    """
    import jupytext

    shell.reset(new_session=True)  # type: ignore[no-untyped-call]
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="profframe-tutorial-") as work, chdir(work):
        Path("examples").symlink_to(tutorial.path.parent)
        for number, cell in enumerate(jupytext.read(tutorial.path).cells):
            if cell.cell_type == "markdown":
                lines += ["", cell.source]
            elif cell.source.strip():
                lines += ["", *markup.fence(cell.source, "python")]
                for output in _outputs(cell.source, tutorial, shell):
                    lines += ["", *_shown(output, folder, f"{tutorial.name}-{number}")]
    text = "\n".join(lines).lstrip().replace(f"{work}/", "")
    source = f"For people who learn from code: `examples/{tutorial.path.name}`, with what it gives."
    return _TITLE.sub(lambda title: f"{title[0]}\n\n{source}", text, count=1) + "\n"


def index(pages: Mapping[str, str], above: str) -> str:
    """The page that lists all tutorials.

    Parameters
    ----------
    pages
        Text of each page, by its name.
    above
        Markdown that the page begins with.
    """
    lines = [above.rstrip("\n"), ""]
    for name, text in pages.items():
        first = _TITLE.search(text)
        lines.append(f"1. [{first[1] if first else name}](tutorials/{name}.md)")
    lines += ["", "```{toctree}", ":hidden:", "", *(f"tutorials/{name}" for name in pages), "```"]
    return "\n".join(lines) + "\n"


def _outputs(
    source: str, tutorial: Tutorial, shell: InteractiveShell
) -> Iterator[Mapping[str, Any]]:
    """What a cell prints and shows, by type."""
    from IPython.utils.capture import capture_output

    with shell.display_trap, capture_output() as captured:  # the trap first: it would take them
        done = shell.run_cell(source)  # type: ignore[no-untyped-call]
    if not done.success:
        error = done.error_in_exec or done.error_before_exec
        raise RuntimeError(f"{tutorial.path}: {error!r}\n{source}") from error
    if captured.stdout.strip():
        yield {"text/plain": captured.stdout}
    for output in captured.outputs:
        yield output.data


def _shown(output: Mapping[str, Any], folder: Path, name: str) -> list[str]:
    """Markdown of one output."""
    chart = next((value for kind, value in output.items() if _VEGA_LITE.fullmatch(kind)), None)
    if chart is not None:
        return _picture(chart, folder, name)
    if "text/html" in output:
        return markup.fence(output["text/html"], "{raw} html")
    return markup.fence(output.get("text/plain", "").rstrip("\n"), "text")


def _picture(chart: Mapping[str, Any], folder: Path, name: str) -> list[str]:
    import vl_convert

    title = chart.get("title", "")
    said = title.get("text", "") if isinstance(title, dict) else title
    folder.mkdir(parents=True, exist_ok=True)
    drawn = vl_convert.vegalite_to_svg(dict(chart)).encode()
    ending = "svg"
    if len(drawn) > _LARGEST:
        drawn, ending = vl_convert.vegalite_to_png(dict(chart), scale=2), "png"
    (folder / f"{name}.{ending}").write_bytes(drawn)
    words = " ".join(said) if isinstance(said, list) else str(said)
    return [f"![{markup.plain(words)}]({name}.{ending})"]
