"""Versions of what is installed, without importing it."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def installed_version(distribution: str) -> str:
    """Return the distribution's version, or an empty text where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
