"""What the measurement ran on."""

from __future__ import annotations

import re

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The device and the software around it. Only `model` decides whether results may be compared."""

    model: str
    """GPU model with its MIG profile, or CPU model."""
    kind: str
    """"cuda" or "cpu"."""
    host: str = ""
    uuid: str = ""
    driver: str = ""
    cuda: str = ""
    python: str = ""
    torch: str = ""
    triton: str = ""
    threads: str = ""
    """Of a CPU: how many cores the process may use, and what the environment says of threads."""
    extra: dict[str, str] = msgspec.field(default_factory=dict)
    """What the `pytest_gpuperf_machine_info` hooks added."""

    @property
    def key(self) -> str:
        """The folder name that results of this model are stored under."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.model).strip("-.")[:80] or "unknown"
