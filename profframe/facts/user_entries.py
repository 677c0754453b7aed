"""Entries of the user: a mapping, or a JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from profframe.errors import ParameterError


def document(parameter: str, given: Any, content: str) -> tuple[str, Any]:
    """The given mapping, or the content of the named file, with its name for errors.

    Raises
    ------
    ParameterError
        The file cannot be read, or is not JSON; the message names it.

    Examples
    --------
    >>> document("devices", {"Mine": {}}, "devices")
    ('devices', {'Mine': {}})
    """
    if not isinstance(given, (str, os.PathLike)):
        return parameter, given
    path = os.fspath(given)
    try:
        return path, json.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: not a JSON file of {content}: {error}") from error
