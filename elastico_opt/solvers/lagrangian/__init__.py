"""Elastic shadow pricing: prices of resources, choices at these prices, bounds from both."""

from __future__ import annotations
