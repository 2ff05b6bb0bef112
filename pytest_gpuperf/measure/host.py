"""The host around the measurements: how many cores, how busy, how steady."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.measure.backends.cpu import usable_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """None or empty where the system does not tell."""

    cores: int
    """That this process may run on."""
    quota_cores: float | None = None
    """How many cores' time the container may use; None: no limit."""
    load: float | None = None
    """Processes that ran or wanted to, on average over the last minute."""
    governors: tuple[str, ...] = ()
    """What sets the cores' frequency, each once."""
    virtual: bool | None = None
    """Whether a hypervisor is below."""
    swap_used_bytes: int | None = None


def read_host(root: Path = Path("/")) -> HostFacts:
    """Read what Linux tells under /proc and /sys (below `root`); other systems tell less."""
    return HostFacts(
        cores=usable_cores(),
        quota_cores=_quota_cores(_text(root / "sys/fs/cgroup/cpu.max")),
        load=_load(_text(root / "proc/loadavg")),
        governors=tuple(
            sorted({_text(file).strip() for file in root.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")})
        ),
        virtual=_virtual(_text(root / "proc/cpuinfo")),
        swap_used_bytes=_swap_used_bytes(_text(root / "proc/meminfo")),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _quota_cores(text: str) -> float | None:
    """Read `quota period`, of which the first may be `max`."""
    found = re.match(r"(\d+) (\d+)", text)
    return int(found[1]) / int(found[2]) if found and int(found[2]) else None


def _load(text: str) -> float | None:
    found = re.match(r"([\d.]+) ", text)
    return float(found[1]) if found else None


def _virtual(text: str) -> bool | None:
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return "hypervisor" in flags[1].split() if flags else None


def _swap_used_bytes(text: str) -> int | None:
    sizes = {
        name: int(kilobytes) << 10 for name, kilobytes in re.findall(r"^(Swap\w+):\s+(\d+) kB", text, re.MULTILINE)
    }
    return sizes["SwapTotal"] - sizes["SwapFree"] if {"SwapTotal", "SwapFree"} <= sizes.keys() else None
