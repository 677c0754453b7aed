"""Output of verbs: tables for people, data for programs."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from profframe.cli import completion
from profframe.cli.messages import complain
from profframe.cli.verbs import FILE
from profframe.errors import ExportError, UnknownNameError
from profframe.show.units import escaped, visible, visible_lines
from profframe.system.atomic_files import atomic_write

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from profframe.trace.trace import Trace

    Human = Callable[[int | None], RenderableType]
    Readable = Callable[[pl.DataFrame], pl.DataFrame]

Result = TypeVar("Result")
_ENDINGS: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".txt": "table",
}
_PAGE: Final = ".html"
METRICS: Final = "openmetrics"
_OF_METRICS: Final = {".prom": METRICS}
_KERNELS: Final = "SELECT DISTINCT name FROM events WHERE kind = 'kernel'"


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


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the rows of a verb go, and in which format."""

    form: str
    file: Path | None
    is_asked_for: bool
    """Whether an option names the form, the file or the columns: the rows of the verb are wanted,
    and not what it says of them."""
    columns: tuple[str, ...] = ()
    """Wanted columns, in this order; none for all."""
    full_names: bool = False
    """Whether people also see kernel names with their types and arguments."""

    @property
    def is_page(self) -> bool:
        """Whether a page is asked for."""
        return self.form == _PAGE

    @property
    def width(self) -> int | None:
        """Width of what people read; None for any width: whole names, not for a terminal."""
        from profframe.show.terminal import PIPE_WIDTH, Folding, console

        if self.file is None and sys.stdout.isatty():
            return Folding(console().width) if self.full_names else console().width
        return None if self.full_names else PIPE_WIDTH

    def echo(self, *parts: RenderableType) -> None:
        """Print the parts with a line between them."""
        from profframe.show import terminal

        for number, part in enumerate(parts):
            if number:
                click.echo()
            if sys.stdout.isatty():
                terminal.console().print(part)
            else:
                click.echo(terminal.text(part, self.width), nl=False)

    def emit(  # noqa: PLR0912 - one branch for each form
        self,
        frame: pl.DataFrame,
        human: Human | None = None,
        comment: Callable[[], str] | None = None,
        *,
        readable: Readable | None = None,
        top: int | None = None,
        chooses: bool = False,
        keep: Collection[str] = (),
        main: Sequence[str] = (),
        metrics: Callable[[pl.DataFrame], str] | None = None,
        title: str = "",
        answer: str = "",
    ) -> None:
        """Write a frame, or its wanted columns, to the file or to stdout.

        Programs get it as it is. People get what ``human`` makes for a width, or else a table of at
        most ``top`` rows, as ``readable`` makes them, which has the ``main`` columns and those to
        ``keep`` if not all fit.
        ``comment`` gives it as Markdown. With ``chooses`` both have only the wanted columns.
        ``metrics`` gives it as OpenMetrics. ``title`` is a line above the rows;
        below them the words of ``answer`` are explained, if they are from it.
        """
        from profframe.show import columns, terminal
        from profframe.show.comment import rows_table
        from profframe.show.empty_frames import docs_of, note_of, why_empty
        from profframe.show.footnotes import footnotes, of_shares

        self._check(frame)
        if self.form == METRICS and metrics is None:
            raise click.UsageError(f"--format {METRICS} is for `answer runs` and `check`")
        why = why_empty(frame)
        of_rows = human is None or (bool(self.columns) and not chooses)
        if of_rows or (self.form == "markdown" and comment is None):
            first = frame if top is None else frame.head(top)
            shown = readable(first) if readable else self._short(first)
            names = self.columns or columns.informative(shown, keys_of=frame)
            rows = shown.select(names)
            notes = [*footnotes(rows, of_shares(docs_of(frame)), answer)]
            kept = {*keep, *self.columns}
            human = functools.partial(
                terminal.table,
                rows,
                title=title,
                why_empty=why,
                keep=kept,
                main=main,
                notes=notes,
            )
            if of_rows or comment is None:
                comment = functools.partial(rows_table, rows)
        if self.form == "table" and self.file is None and human:
            self.echo(human(self.width))
            if note := note_of(frame):
                click.echo(f"\n{note}")
            return
        if why is not None:
            click.echo(f"note: {terminal.no_rows(why)}", err=True)
        wanted = frame.select(self.columns) if self.columns else frame
        if self.form == METRICS and metrics is not None:
            data = metrics(wanted).encode()
        elif self.form == "markdown" and comment:
            data = comment().encode()
        elif self.form == "table" and human:
            below = f"\n{note}\n" if (note := note_of(frame)) else ""
            data = f"{terminal.text(human(self.width), self.width)}{below}".encode()
        else:
            data = _encoded(wanted, self.form)
        if self.file is None:
            if sys.stdout.isatty():  # it would interpret some bytes
                data = "\n".join(map(visible, data.decode().split("\n"))).encode()
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            with atomic_write(self.file) as draft:
                draft.write_bytes(data)

    def of(self, trace: Trace, *, moments: bool = True) -> Readable:
        """Rows of a trace as people read them: short kernel names, times since its start.

        Other texts stay as they are, whatever they look like. Without ``moments``, times do, too.
        """
        from profframe.show import columns, kernel_names
        from profframe.trace.query import own_rows

        @functools.cache
        def kernels() -> pl.Series:
            return own_rows(trace, _KERNELS)["name"]

        def readable(frame: pl.DataFrame) -> pl.DataFrame:
            rows = columns.since_start(frame, trace.traces) if moments else frame
            short = {} if self.full_names else kernel_names.candidates(rows)
            if short:
                short = {name: short[name] for name in kernels() if name in short}
                short = kernel_names.apart(rows, short)
            return kernel_names.replaced(rows, short)

        return readable

    def of_parts(self, trace: Trace) -> Readable:
        """Rows of parts of a trace as people read them; of its rows, only starts are read."""
        from profframe.show import columns

        return lambda frame: self._short(columns.since_start(frame, trace.traces))

    def _short(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows without a trace to ask: short names if a column says that they are kernels."""
        import polars as pl

        from profframe.show import kernel_names

        if self.full_names:
            return frame
        if frame.schema.get("what") == pl.String:
            frame = kernel_names.shortened(frame, "name", kernels=pl.col("what") == "kernel")
        return kernel_names.shortened(frame, *(n for n in frame.columns if n.endswith("_kernel")))

    def _check(self, frame: pl.DataFrame) -> None:
        """Refuse columns that the frame lacks."""
        for name in self.columns:
            if name not in frame.columns:
                error = UnknownNameError.among("column", name, frame.columns)
                raise click.UsageError(f"--columns: {error}")


def with_output(verb: Callable[..., Result]) -> Callable[..., Result]:
    """Give a verb the options of `OutputOptions`, as one argument ``output``."""
    return _with_options(verb)


def with_page(verb: Callable[..., Result]) -> Callable[..., Result]:
    """`with_output` for verbs that can also write a page, if the file ends in ``.html``."""
    return _with_options(verb, has_page=True)


def with_metrics(verb: Callable[..., Result]) -> Callable[..., Result]:
    """`with_output` for verbs that can also write OpenMetrics."""
    return _with_options(verb, has_metrics=True)


def _with_options(
    verb: Callable[..., Result], *, has_page: bool = False, has_metrics: bool = False
) -> Callable[..., Result]:
    forms = ["table", *(form for form in _ENDINGS.values() if form != "table")]

    @click.option(
        "--full-names", is_flag=True, help="Show kernel names with their types and arguments."
    )
    @click.option(
        "--columns",
        metavar="A,B",
        callback=_names,
        shell_complete=completion.columns,
        help="Columns of the rows to show or write, in this order.  [default: all, or a choice]",
    )
    @click.option(
        "--format",
        "form",
        type=click.Choice([*forms, METRICS] if has_metrics else forms),
        help="Default: from the ending of FILE, else a table.",
    )
    @click.option("-o", "--output", type=FILE, metavar="FILE", help="Write to a file.")
    @functools.wraps(verb)
    def wrapper(
        form: str | None,
        output: Path | None,
        columns: tuple[str, ...],
        *,
        full_names: bool,
        **others: Any,
    ) -> Result:
        more = {_PAGE: _PAGE} if has_page else _OF_METRICS if has_metrics else {}
        data_form = form or _form_of(output, more)
        if data_form == "parquet" and output is None:
            raise click.UsageError("--format parquet needs -o FILE")
        is_asked_for = bool(form or output or columns)
        given = OutputOptions(data_form, output, is_asked_for, columns, full_names)
        return verb(**others, output=given)

    return wrapper


def _form_of(file: Path | None, more: Mapping[str, str]) -> str:
    """The form that the ending of a file asks for, or one of its verb; a table without one."""
    suffix = "" if file is None else file.suffix.lower()
    endings = {"": "table", **_ENDINGS, **more}
    if suffix not in endings:
        names = ", ".join(ending for ending in endings if ending)
        raise click.UsageError(
            f"-o {file}: {suffix} is the ending of no format; known are {names}, and --format NAME "
            "writes into a file of any name"
        )
    return endings[suffix]


def _names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Names of columns, each once."""
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    if len({*names}) < len(names):
        raise click.BadParameter(f"each once, not {text!r}")
    return names


def _encoded(frame: pl.DataFrame, form: str) -> bytes:
    import polars as pl

    if form == "json":
        return escaped(_without_bytes(frame).write_json()).encode() + b"\n"
    if form == "jsonl":
        return visible_lines(_without_bytes(frame).write_ndjson(), escaped).encode()
    if form == "csv":
        from profframe.show.sheets import for_sheets

        return for_sheets(_flat(_without_bytes(frame))).write_csv().encode()
    file = io.BytesIO()
    try:
        frame.write_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise ExportError(
            f"Parquet cannot hold these rows: {' '.join(str(error).split())}"
        ) from error
    return file.getvalue()


def as_prose(frame: pl.DataFrame) -> Human:
    """Show documentation."""
    from profframe.show import terminal

    return lambda _: terminal.prose(frame)


def _without_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with bytes as hexadecimal digits, also those within values."""
    import polars as pl

    return frame.with_columns(_as_digits(pl.col(name), of) for name, of in frame.schema.items())


def _as_digits(values: pl.Expr, dtype: Any) -> pl.Expr:
    import polars as pl

    if dtype == pl.Binary:
        return values.bin.encode("hex")
    if isinstance(dtype, pl.List):
        return values.list.eval(_as_digits(pl.element(), dtype.inner))
    if isinstance(dtype, pl.Array):
        return values.arr.eval(_as_digits(pl.element(), dtype.inner))
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return values.struct.with_fields(
            _as_digits(pl.field(field.name), field.dtype) for field in dtype.fields
        )
    return values


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists and structs as JSON text, because CSV has no format for them."""
    import polars as pl

    return frame.with_columns(
        pl.Series(column.name, [json.dumps(value, default=str) for value in column.to_list()])
        for column in frame
        if column.dtype.is_nested()
    )
