"""Shipped instances, generators and best-known values."""
