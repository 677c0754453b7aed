"""Host threads as speedscope's JSON: frames by number, and a profile of each thread."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from profframe import __version__
from profframe.analysis.export_lines.speedscope import METRICS, Profile, Profiles
from profframe.export.files import Write, put_lines, written

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def write(path: str | os.PathLike[str], profiles: Profiles, metric: str) -> None:
    """Write the profiles of a metric."""
    head = {
        "$schema": SCHEMA,
        "exporter": f"profframe {__version__}",
        "name": f"{Path(path).name}: {METRICS[metric]}",
        "activeProfileIndex": profiles.longest,
    }
    with written(path) as put:
        put(f'{json.dumps(head)[:-1]}, "shared": {{"frames": ['.encode())
        put(",\n".join(map(json.dumps, profiles.frames)).encode())
        put(b']},\n"profiles": [')
        for number, profile in enumerate(profiles.profiles):
            put(b",\n" * (number > 0))
            _put(put, profile)
        put(b"\n]}\n")


def _put(put: Write, profile: Profile) -> None:
    head = {
        "type": "evented",
        "name": profile.title,
        "unit": "nanoseconds",
        "startValue": profile.first_ns,
        "endValue": profile.last_ns,
    }
    put(f'{json.dumps(head)[:-1]}, "events": ['.encode())
    put_lines(put, profile.lines)
    put(b"\n]}")
