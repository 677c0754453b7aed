"""Build the site and check it: ``python -m scripts.site FOLDER``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from scripts.site.building import build
from scripts.site.checking import faults
from scripts.site.staging import stage


def main(target: Path) -> int:
    """Write the pages, then the site; 0 if all is well with it."""
    with tempfile.TemporaryDirectory(prefix="profframe-site-") as folder:
        pages = stage(Path(folder))
        shutil.rmtree(target, ignore_errors=True)
        failed = build(Path(folder), target)
    wrong = faults(target.resolve(), [f"{page.removesuffix('.md')}.html" for page in pages])
    for fault in wrong:
        print(fault, file=sys.stderr)
    if not (failed or wrong):
        print(f"{target}/index.html: {len(pages)} pages")
    return failed or bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
