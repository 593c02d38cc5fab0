"""How the documentation is built: `make docs`. Pages are Markdown; reference pages are generated from the code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy.typing

from sortition import __version__

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the workshop
numpy.typing.ArrayLike = type("array-like", (), {"__module__": "builtins"})  # its name, not all that it stands for

project = "Sortition"
author = "The Sortition authors"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "workshop.reference_pages",
    "workshop.method_pages",
    "workshop.repository_links",
    "workshop.typeset",
    "workshop.reproduction_titles",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]  # code with …; levels of generated pages
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"  # made when the site is built: no script, no network
nb_execution_mode = "off"  # the tests execute code blocks and notebooks
nb_render_markdown_format = "myst"

autodoc_typehints = "description"
napoleon_custom_sections = [("Class attributes", "params_style")]
autodoc_member_order = "bysource"
autodoc_mock_imports = ["flwr", "ray", "nvflare"]
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = f"Sortition {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_prompt_text = r"^(\$ |>>> )"
copybutton_prompt_is_regexp = True


def literal_bars(app, what, name, obj, options, lines) -> None:
    """|S| is the size of a set here, not a substitution of reStructuredText."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", literal_bars)
