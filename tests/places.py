"""Where tests, benchmarks and scripts find what is not theirs: nothing else names these folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""Of the repository."""
TRACES: Final = Path(
    os.environ.get("PROFFRAME_TRACES") or ROOT.parent / "shared" / "traces"
).absolute()
"""Real traces from public repositories, with an ``index.csv``; not on every machine."""
CASES: Final = (TRACES.parent / "cases").absolute()
"""Small inputs that reproduce public reports, with the right values; beside the traces."""
ORACLES: Final = (TRACES.parent / "oracles").absolute()
"""What other tools say of these traces; beside them."""
