"""What profframe adds to the traces that it writes, so that they read back as they were.

A viewer passes over it. An event with such a message is a row; one without is there for viewers
alone, as the ends of slices are.
"""

from __future__ import annotations

from typing import Final

EVENT_KEY: Final = 9901
"""Field of an event with a message of what it was."""
TRACK_KEY: Final = 9901
"""Field of a track with its process and thread, as a JSON list of texts."""
PHASE: Final = 1
DURATION: Final = 2
ID: Final = 3
SCOPE: Final = 4
BINDING_POINT: Final = 5
ARGS: Final = 6
"""Arguments as text, where annotations do not say them all."""
BIND_ID: Final = 7
DIRECTION: Final = 8
"""Whether the arrow of that id comes in (1), goes out (2), or both."""
LABELS_KEY: Final = "profframe labels"
"""Metadata with the labels of processes and threads."""
ZERO_KEY: Final = "profframe zero_ns"
"""Metadata with the moment that times are since."""
