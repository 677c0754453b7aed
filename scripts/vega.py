"""Vega, Vega-Lite and Vega-Embed as one script: ``python scripts/vega.py`` writes it for reports.

They are those of vl-convert-python, which altair uses, too. They lie in the package because
bundling them takes longer than a whole report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import vl_convert

TARGET: Final = Path(__file__).resolve().parent.parent / "profframe/pages/report/vendor/vega.js"
ABOVE: Final = """\
/*! Vega {vega}, Vega-Lite {lite}, Vega-Embed {embed} and what they are of; see vega.LICENSE. */
"""


def main() -> None:
    """Write the script."""
    lite = max(vl_convert.get_vegalite_versions(), key=lambda v: [*map(int, v.split("."))])
    above = ABOVE.format(
        vega=vl_convert.get_vega_version(), lite=lite, embed=vl_convert.get_vega_embed_version()
    )
    code = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=lite)
    TARGET.write_text(f"{above}(() => {{\n{code}\n}})();\n", encoding="utf-8")


if __name__ == "__main__":
    main()
