"""Whether two results may be compared at all."""

from __future__ import annotations

from pytest_gpuperf.measure.plan import Identity


def incomparability(baseline: Identity, new: Identity) -> str | None:
    """Why results of these identities may not be compared, field by field; None where they may."""
    fields = (
        ("timer", baseline.timer, new.timer),
        ("cache mode", baseline.cache, new.cache),
        ("workload", baseline.workload.arguments, new.workload.arguments),
        ("bytes moved", baseline.workload.bytes_moved, new.workload.bytes_moved),
        ("operations", baseline.workload.flops, new.workload.flops),
    )
    changes = [f"{name}: {_shown(old)} in the baseline, now {_shown(now)}" for name, old, now in fields if old != now]
    return "; ".join(changes) or None


def _shown(value: str | float | None) -> str:
    if value is None or value == "":
        return "not stated"
    return value if isinstance(value, str) else f"{value:.17g}"
