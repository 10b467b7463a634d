"""Elastic shadow pricing: resource prices, repair, improvement."""
