"""The group of all verbs, shared options, and exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from profframe import __version__
from profframe.errors import ParameterError, UnknownNameError
from profframe.loaders.options import FLAGS, Flag
from profframe.query import renamed
from profframe.show.units import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from profframe.trace.trace import Trace


HELP_ORDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Look and ask": ("show", "advice", "answer", "sql"),
        "Compare": ("diff", "explain", "check"),
        "Share": ("report", "export"),
        "Look closer": ("critical-path", "roofline", "what-if", "tree", "info"),
        "Jobs of several ranks": ("blame", "hang"),
        "Keep and serve": ("convert", "store", "cache", "augment", "ask"),
    }
)
"""Verbs as `--help` lists them: by purpose, with those that people need first at the top."""
_VERB_COLUMNS: Final = 15
_OLD_WORDS: Final = "profframe.old_words"
"""Where a context has the old words of options that were typed."""


SOURCE: Final = click.Path(readable=False, allow_dash=True)
"""A trace, a glob, a folder, a store or a URL, as text; loading reports whether it exists."""
FILE: Final = click.Path(path_type=Path, readable=False)
"""A file or folder that need not exist."""


class _Verb(click.Command):
    """A verb, which also takes the old words of its options, with a warning."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        new_words, old_words = renamed.options(self.name), []
        for place, word in enumerate(args):
            option, equals, value = word.partition("=")
            if option in new_words:
                old_words.append(option)
                args[place] = f"{new_words[option]}{equals}{value}"
            if word == "--":
                break
        ctx.meta[_OLD_WORDS] = old_words
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from profframe.cli.messages import warn

        for old in ctx.meta[_OLD_WORDS]:
            new = renamed.options(self.name)[old]
            warn(renamed.sentence(str(self.name), old, new))
        return super().invoke(ctx)


class _Verbs(click.Group):
    """Verbs; a command line without one shows a trace."""

    command_class = _Verb

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = {*self.commands, "--version", "-h", "--help"}
        return super().parse_args(ctx, ["show", *args] if args and args[0] not in words else args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs, and the traces that one may show without a verb."""
        from click.shell_completion import CompletionItem

        # It comes first: the bash script forgets what comes before it.
        file = CompletionItem(incomplete, type="file")
        return [
            *([] if incomplete.startswith("-") else [file]),
            *super().shell_complete(ctx, incomplete),
        ]

    def list_commands(self, _: click.Context) -> list[str]:
        """All verbs, in the order of `--help`."""
        listed = [name for names in HELP_ORDER.values() for name in names]
        return [*listed, *sorted(self.commands.keys() - {*listed})]

    def format_help(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """One screen: a line for each verb."""
        formatter.write("Usage: profframe [VERB] TRACE... [OPTIONS]\n\n")
        formatter.write_text(inspect.cleandoc(self.help or ""))
        formatter.write("\n")
        for title, names in HELP_ORDER.items():
            formatter.write(f"{title}\n")
            for name in names:
                line = (self.commands[name].help or "").partition("\n\n")[0].replace("\n", " ")
                formatter.write(f"  {name:<{_VERB_COLUMNS}}{line}\n")


def one_option(
    *names: str, **attributes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that chooses one thing: a second value is an error, not a replacement."""
    return click.option(*names, multiple=True, callback=_only, **attributes)


def _only(_: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> Any:
    if len(values) > 1:
        raise click.UsageError(f"{option.opts[0]}: only one, not {', '.join(map(str, values))}")
    return values[0] if values else None


takes_sources = click.argument("sources", metavar="TRACE...", nargs=-1, required=True, type=SOURCE)
with_into = one_option(
    "--into",
    metavar="LIBRARY",
    help="Lines of libraries too: torch, all, or any package or module, such as PIL.",
)
takes_dtype = click.option(
    "--dtype", metavar="TYPE", help="Type assumed for work of unknown type: bf16, float16, ..."
)


_TERMS: Final = (
    click.option(
        "--files",
        multiple=True,
        type=FILE,
        metavar="DIR",
        help="A folder or file that your own SQL may read; it may read no other.",
    ),
    click.option("--timeout", type=float, metavar="SECONDS", help="Maximum time for the question."),
    click.option("--memory", metavar="SIZE", help="Maximum memory for the question, such as 2GB."),
    click.option(
        "--rows", type=int, metavar="N", help="Maximum rows of the result; more are an error."
    ),
)


@dataclass(frozen=True, slots=True)
class TermOptions:
    """Terms of a question: frames and files that it may read, and its limits."""

    files: tuple[Path, ...]
    timeout: float | None
    memory: str | None
    rows: int | None

    def check(self) -> None:
        """Check them before loading a large trace."""
        from profframe.query.sandbox import Terms as QueryTerms
        from profframe.query.sandbox import user_files

        try:
            user_files(self.files)
            QueryTerms().with_limits(self.memory, self.timeout, self.rows)
        except ParameterError as error:
            raise click.UsageError(str(error)) from error

    def apply(self, trace: Trace) -> Trace:
        """The trace on these terms."""
        return trace.with_tables(files=self.files).with_limits(
            self.memory, timeout_s=self.timeout, rows=self.rows
        )


def with_facts(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that change facts, as one argument ``facts`` for `profframe.load`."""

    @functools.wraps(verb)
    def wrapper(**others: Any) -> Any:
        values = {name: others.pop(f"facts_{name}") for name in FLAGS}
        lists = {name: [*values[name]] or None for name in FLAGS if FLAGS[name].is_repeatable}
        return verb(**others, facts=values | lists)

    result: Callable[..., Any] = wrapper
    for name in reversed([*FLAGS]):
        result = _option_of(name, FLAGS[name])(result)
    return result


def _option_of(name: str, flag: Flag) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    about: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar}
    words = (flag.name, f"facts_{name}")
    if flag.is_repeatable:
        return click.option(*words, multiple=True, type=SOURCE, **about)
    if flag.choices:
        return click.option(*words, type=click.Choice(flag.choices), **about)
    return one_option(*words, type=FILE, **about)


def with_terms(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of `TermOptions`, as one argument ``terms``."""

    @functools.wraps(verb)
    def wrapper(
        files: tuple[Path, ...],
        timeout: float | None,
        memory: str | None,
        rows: int | None,
        **others: Any,
    ) -> Any:
        terms = TermOptions(files, timeout, memory, rows)
        terms.check()
        return verb(**others, terms=terms)

    for option in reversed(_TERMS):
        wrapper = option(wrapper)
    return wrapper


def _say_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from profframe.native.library import reason_without

    reason = reason_without()
    scanner = f"pure Python, without the native scanner: {reason}" if reason else "native scanner"
    click.echo(f"profframe {__version__} ({scanner})")
    ctx.exit()


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version, and whether the native scanner is used.",
)
@click.pass_context
def verbs(ctx: click.Context) -> None:
    """Where the time of a PyTorch program went: `profframe trace.json.gz`.

    A TRACE is a file, a glob, a folder of traces or a store, or a URL of one
    (s3://bucket/a.json.gz); one with the name of a verb needs its folder, as `./info`.
    `profframe VERB --help` has the options of a verb.
    """
    if ctx.invoked_subcommand is None:
        from profframe.cli.folder import listing, text
        from profframe.cli.messages import line_width

        click.echo(text(listing(Path()), line_width(), verbs.commands))


@contextmanager
def usage_errors(before: str = "") -> Iterator[None]:
    """A wrong word in an option is an error of usage; ``before`` names the option."""
    try:
        yield
    except (UnknownNameError, ParameterError) as error:
        raise click.UsageError(f"{before}{visible(str(error))}") from error
