"""Whether two results may be compared at all."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.measure.plan import Identity


def incomparability(baseline: Identity, new: Identity) -> str | None:
    """Why results of these identities may not be compared, field by field; None where they may."""
    changes = [f"{name}: {old} in the baseline, now {now}" for name, old, now in _differing(baseline, new)]
    return "; ".join(changes) or None


def difference(usual: Identity, other: Identity) -> str:
    """Say how one run of a benchmark was measured differently from its other runs."""
    return "; ".join(f"{name}: {theirs} in place of {ours}" for name, ours, theirs in _differing(usual, other))


def _differing(baseline: Identity, new: Identity) -> Iterator[tuple[str, str, str]]:
    fields = (
        ("timer", baseline.timer, new.timer),
        ("cache mode", baseline.cache, new.cache),
        ("workload", baseline.workload.arguments, new.workload.arguments),
        ("bytes moved", baseline.workload.bytes_moved, new.workload.bytes_moved),
        ("operations", baseline.workload.flops, new.workload.flops),
    )
    yield from ((name, _shown(old), _shown(now)) for name, old, now in fields if old != now)


def _shown(value: str | float | None) -> str:
    if value is None or value == "":
        return "not stated"
    return value if isinstance(value, str) else f"{value:.17g}"
