"""What holds for every verb of the command line, whatever it is given."""

from __future__ import annotations

import contextlib
import io
from typing import Final

from profframe import cli

_BAD: Final = ("internal:", "Traceback", "panicked")


def check_verb(*arguments: str) -> None:
    """Run a verb: it ends well, or in one line that says what is wrong.

    ``store verify`` lists what it finds, and then has no more to say than its exit code.
    """
    out, told = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = cli.run(arguments)
    said = told.getvalue()
    assert code in {0, 1}, (arguments, code, said)
    assert not any(word in said for word in _BAD), (arguments, said)
    if code and "verify" not in arguments:
        assert said.startswith("error: "), (arguments, said)
        assert said.count("\n") == 1, (arguments, said)
