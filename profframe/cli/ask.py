"""The verb `ask`: a server for programs that ask questions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.verbs import takes_sources, verbs, with_facts
from profframe.errors import MissingExtraError

_TOKEN: Final = "PROFFRAME_TOKEN"  # noqa: S105 - the name of a variable
_LEAST_CHARACTERS: Final = 16


@verbs.command()
@takes_sources
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="HTTP on 127.0.0.1 instead of stdin and stdout; 0 is any free port.",
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time per question.",
)
@click.option(
    "--memory",
    default="2GB",
    show_default=True,
    metavar="SIZE",
    help="Maximum memory per question.",
)
@click.option(
    "--rows", default=5_000, show_default=True, metavar="N", help="Maximum rows per result."
)
@with_facts
@with_cache
def ask(
    sources: tuple[str, ...],
    port: int | None,
    timeout: float,
    memory: str,
    rows: int,
    *,
    facts: Mapping[str, Any],
) -> None:
    """Serve answers to programs through the Model Context Protocol.

    It reads these traces and nothing else: no client can make it open a file or a URL. Over HTTP a
    client sends the token in PROFFRAME_TOKEN, or a new one that is written to stderr. Needs pip
    install 'profframe[mcp]'.
    """
    try:
        from profframe.server import mcp
    except ImportError as error:
        raise MissingExtraError("ask needs mcp: pip install 'profframe[mcp]'") from error
    from profframe.errors import ParameterError
    from profframe.query.sandbox import Terms
    from profframe.server.service import Service
    from profframe.server.tools import QuestionLimits

    try:
        Terms().with_limits(memory, timeout, rows)
    except ParameterError as error:
        raise click.UsageError(str(error)) from error
    token = _token() if port is not None else ""
    listening = None if port is None else mcp.listen(port)
    service = Service(load(sources, facts=facts), QuestionLimits(timeout, memory, rows))
    if listening is None:
        mcp.run_stdio(service)
        return
    address = f"http://{mcp.HOST}:{listening.getsockname()[1]}{mcp.PATH}"
    origin = "of PROFFRAME_TOKEN" if _TOKEN in os.environ else token
    click.echo(f"{address}\nAuthorization: Bearer {origin}", err=True)
    mcp.run_http(service, listening, token)


def _token() -> str:
    """The token that clients have to send."""
    import secrets

    token = os.environ.get(_TOKEN)
    if token is None:
        return secrets.token_urlsafe(32)
    if len(token) < _LEAST_CHARACTERS or not token.isascii() or not token.isprintable():
        raise click.UsageError(
            f"{_TOKEN}: needs at least {_LEAST_CHARACTERS} printable ASCII characters"
        )
    return token
