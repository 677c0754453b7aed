"""``python -m profframe``."""

from __future__ import annotations

from profframe.cli import main

if __name__ == "__main__":
    main()
