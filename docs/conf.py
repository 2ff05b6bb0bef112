"""How the documentation is built: `make docs`, warnings are errors."""

import re

project = "pytest-gpuperf"
author = "The pytest-gpuperf authors"
project_copyright = "2026, the pytest-gpuperf authors"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "pytest-gpuperf"
exclude_patterns = ["_build"]

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"


def _as_literals(app, what, name, obj, options, lines):  # noqa: ARG001 - the signature is Sphinx's
    """Docstrings are plain text with code in single backticks; Sphinx reads reStructuredText."""
    for index, line in enumerate(lines):
        lines[index] = re.sub(r"(?<!`)`([^`]+)`(?!`)(?=(\w)?)", lambda m: f"``{m[1]}``" + ("\\ " if m[2] else ""), line)


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _as_literals)
