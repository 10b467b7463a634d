"""The compiled program: integer coefficients that every formulation reads."""

from __future__ import annotations

from elastico_opt.program.arrays import NEVER, UNLIMITED, Home, Placement, Program
from elastico_opt.program.compile import compile_program

__all__ = ["NEVER", "UNLIMITED", "Home", "Placement", "Program", "compile_program"]
