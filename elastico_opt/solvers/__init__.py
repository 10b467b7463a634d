"""The back ends, one file or folder each; `registry` finds them by name."""
