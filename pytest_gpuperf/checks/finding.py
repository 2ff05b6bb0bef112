"""What a check has to say of a benchmark."""

from __future__ import annotations

import msgspec


class CheckFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reason to doubt a benchmark."""

    check: str
    """Name of the check, as `allow` takes it."""
    seen: str
    """What was seen, with its evidence."""
    why: str
    """Why it matters."""
    remedy: str
    """How to mend or to allow it."""
    is_limit: bool = False
    """Whether the test itself set the limit that was passed, so that passing it fails whatever `checks` says."""

    @property
    def line(self) -> str:
        """Everything in one line."""
        return f"{self.check}: {self.seen}; {self.why} ({self.remedy})"
