"""Sphinx configuration. Build with `make docs`: a warning is an error."""

from importlib.metadata import version as installed_version

project = "elastico-opt"
copyright = "elastico-opt developers"
version = release = installed_version("elastico-opt")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"elastico-opt {version}"
