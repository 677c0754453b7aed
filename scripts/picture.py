"""Draw what the command shows: ``python scripts/picture.py`` writes docs/summary.svg."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ("profframe", "examples/cpu_training.json.gz", "--top", "8")
WIDTH = 100


def on_a_terminal(command: tuple[str, ...]) -> str:
    """What a command writes to a terminal of this width, colours and all."""
    ours, its = pty.openpty()
    environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with (
        os.fdopen(ours, "rb") as screen,
        subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=its, env=environment),
    ):
        os.close(its)
        text = io.BytesIO()
        try:
            while block := screen.read1():
                text.write(block)
        except OSError:  # how Linux says that the other end is closed
            pass
    return text.getvalue().decode().replace("\r\n", "\n")


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(f"$ {' '.join(COMMAND)}", style="bold", highlight=False)
    console.print(Text.from_ansi(on_a_terminal(COMMAND)))
    console.save_svg(str(ROOT / "docs" / "summary.svg"), title="profframe", unique_id="summary")


if __name__ == "__main__":
    main()
