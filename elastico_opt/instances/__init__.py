"""Shipped instances and seeded generators."""
