"""How Sphinx builds the site: ``bash scripts/docs``. The pages come from ``scripts/site``."""

from __future__ import annotations

from profframe import __version__

project = "profframe"
author = "the profframe authors"
copyright = "the profframe authors, Apache-2.0"  # noqa: A001 -- Sphinx's name for it
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static", ".ipython", "conf.py"]
suppress_warnings = ["misc.highlighting_failure"]  # DuckDB's SQL is more than Pygments knows
smartquotes = False  # names and code are shown as they are
default_role = "literal"

myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"profframe {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which a browser forbids from disk
