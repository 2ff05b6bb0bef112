from __future__ import annotations

import msgspec
import pytest

from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.measure.plan import Identity, Workload

WORKLOAD = Workload(arguments="float32[4]@cuda", bytes_moved=3e9, flops=8.0)
IDENTITY = Identity(timer="events", cache="cold", workload=WORKLOAD)


def test_equal_identities_are_comparable() -> None:
    assert incomparability(IDENTITY, msgspec.convert(msgspec.to_builtins(IDENTITY), Identity)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"timer": "graph"}, "timer: events in the baseline, now graph"),
        ({"cache": "warm"}, "cache mode: cold in the baseline, now warm"),
        (
            {"workload": msgspec.structs.replace(WORKLOAD, arguments="float16[4]@cuda")},
            "workload: float32[4]@cuda in the baseline, now float16[4]@cuda",
        ),
        (
            {"workload": msgspec.structs.replace(WORKLOAD, bytes_moved=3000000001.0)},
            "bytes moved: 3000000000 in the baseline, now 3000000001",
        ),
        (
            {"workload": msgspec.structs.replace(WORKLOAD, flops=None)},
            "operations: 8 in the baseline, now not stated",
        ),
        (
            {"timer": "wall", "cache": "warm"},
            "timer: events in the baseline, now wall; cache mode: cold in the baseline, now warm",
        ),
    ],
)
def test_every_field_that_differs_is_named(changes: dict[str, object], reason: str) -> None:
    assert incomparability(IDENTITY, msgspec.structs.replace(IDENTITY, **changes)) == reason
