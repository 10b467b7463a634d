"""Better plans by compiled search: exchange chains on pairs, and ruin and recreate for the rest."""

from __future__ import annotations
