"""Baselines and session records on disk."""
