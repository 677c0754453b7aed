"""Output of verbs: tables for people, data for programs."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from profframe.cli.verbs import BAD_INPUT
from profframe.show.units import escaped, visible
from profframe.system.atomic_files import atomic_write

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from profframe.trace.trace import Trace

    Human = Callable[[int | None], RenderableType]

Result = TypeVar("Result")
_ENDINGS: Final = {".csv": "csv", ".json": "json", ".parquet": "parquet"}
_COMMENT_ENDINGS: Final = {**_ENDINGS, ".md": "markdown"}
_PAGE: Final = ".html"


class _Stdout(io.FileIO):
    """Stdout whose errors name it."""

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "stdout") from None


def open_streams() -> None:
    """Prepare the standard streams, also closed ones.

    Writing to a closed stdout is an error; a closed stderr swallows its output.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
    original = sys.stdout
    number = os.open(os.devnull, os.O_RDONLY) if original is None else original.fileno()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(number, "w", closefd=False)),
        encoding="utf-8" if original is None else original.encoding,
        errors=None if original is None else original.errors,
        line_buffering=original is not None and bool(original.line_buffering),
    )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end


def close_streams(code: int) -> int:
    """Flush the streams, and return the exit code, or another one if that fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or complain(f"stdout: {error.strerror}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # Python tries once more
    return code


def complain(message: str) -> int:
    """Write one line of error, and return the exit code of bad input."""
    with suppress(OSError):  # the exit code still tells
        click.echo(f"error: {visible(message)}", err=True)
    return BAD_INPUT


def warn(message: str) -> None:
    """Write one line of warning."""
    click.echo(f"warning: {visible(message)}", err=True)


@dataclass(frozen=True, slots=True)
class Output:
    """Where the rows of a verb go, and in which form."""

    form: str
    file: Path | None
    is_asked_for: bool
    """Whether an option names the form or the file."""

    @property
    def is_page(self) -> bool:
        """Whether a page is asked for."""
        return self.form == _PAGE

    def emit(
        self, frame: pl.DataFrame, human: Human, comment: Callable[[], str] | None = None
    ) -> None:
        """Write a frame to the file or to stdout; ``comment`` gives it as Markdown."""
        if self.form == "table" and self.file is None:
            echo(human(width_of_terminal()))
            return
        if self.form == "markdown" and comment is not None:
            data = comment().encode()
        else:
            data = _encoded(frame, self.form, human)
        if self.file is None:
            data = _visible_lines(data) if sys.stdout.isatty() else data
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            with atomic_write(self.file) as draft:
                draft.write_bytes(data)


def with_output(verb: Callable[..., Result]) -> Callable[..., Result]:
    """Give a verb the options of `Output`, as one argument ``output``."""
    return _with_forms(verb, _ENDINGS)


def with_comment(verb: Callable[..., Result]) -> Callable[..., Result]:
    """The same of a verb that has Markdown, too, and a page by the ending of its file."""
    return _with_forms(verb, _COMMENT_ENDINGS, has_page=True)


def _with_forms(
    verb: Callable[..., Result], endings: Mapping[str, str], *, has_page: bool = False
) -> Callable[..., Result]:
    @click.option(
        "--format",
        "form",
        type=click.Choice(["table", *endings.values()]),
        help="Default: by the ending of FILE, else a table.",
    )
    @click.option("-o", "--output", type=Path, metavar="FILE", help="Write into a file.")
    @functools.wraps(verb)
    def wrapper(form: str | None, output: Path | None, **others: Any) -> Result:
        data_form = form or (endings.get(output.suffix, "table") if output else "table")
        if has_page and not form and output and output.suffix == _PAGE:
            data_form = _PAGE
        if data_form == "parquet" and output is None:
            raise click.UsageError("--format parquet needs -o FILE")
        return verb(**others, output=Output(data_form, output, bool(form or output)))

    return wrapper


def _encoded(frame: pl.DataFrame, form: str, human: Human) -> bytes:
    if form == "json":
        return escaped(_without_bytes(frame).write_json()).encode() + b"\n"
    if form == "csv":
        from profframe.show.sheets import without_formulas

        return without_formulas(_flat(_without_bytes(frame))).write_csv().encode()
    if form == "parquet":
        file = io.BytesIO()
        frame.write_parquet(file)
        return file.getvalue()
    from profframe.show import terminal

    return terminal.text(human(None)).encode()


def _visible_lines(data: bytes) -> bytes:
    """Data for a terminal, without bytes that it would act on."""
    return "\n".join(map(visible, data.decode().split("\n"))).encode()


def as_rows(frame: pl.DataFrame, trace: Trace) -> Human:
    """Show rows of a query; on a terminal without columns that carry no information."""
    from profframe.show import columns, terminal

    rows = columns.since_start(frame, trace.traces)
    return lambda width: terminal.table(columns.compact(rows) if width else rows, width)


def as_prose(frame: pl.DataFrame) -> Human:
    """Show documentation."""
    from profframe.show import terminal

    return lambda _: terminal.prose(frame)


def _without_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with bytes as hexadecimal digits."""
    import polars as pl

    return frame.with_columns(pl.col(pl.Binary).bin.encode("hex"))


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists and structs as JSON text, which CSV has no form for."""
    import polars as pl

    return frame.with_columns(
        pl.Series(column.name, [json.dumps(value, default=str) for value in column.to_list()])
        for column in frame
        if column.dtype.is_nested()
    )


def width_of_terminal() -> int | None:
    """Width of the terminal; None if the output goes elsewhere."""
    from profframe.show.terminal import console

    return console().width if sys.stdout.isatty() else None


def echo(*parts: RenderableType) -> None:
    """Print the parts with a line between them."""
    from profframe.show import terminal

    width = width_of_terminal()
    for number, part in enumerate(parts):
        if number:
            click.echo()
        if width is None:
            click.echo(terminal.text(part), nl=False)
        else:
            terminal.console().print(part)
