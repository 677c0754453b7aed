"""``python -m profframe``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from profframe.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()
