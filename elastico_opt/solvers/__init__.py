"""Back ends: each solves a compiled program and returns a plan with what it proved."""
