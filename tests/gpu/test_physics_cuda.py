"""Ceilings, memory and the doctor on a real CUDA device; their logic is tested with scripted ones elsewhere."""

from __future__ import annotations

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.ceilings import measure_ceilings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_ceilings_are_in_the_order_that_every_card_has_them(backend):
    before = torch.backends.cuda.matmul.fp32_precision
    found = measure_ceilings(backend)
    rates = {kind: ceiling.per_s for kind, ceiling in found.matmul.items()}
    assert rates["bf16"] > rates["tf32"] > rates["fp32"] > 1e12
    assert rates["fp16"] == pytest.approx(rates["bf16"], rel=0.2)
    assert 1e11 < found.bandwidth.per_s < 1e14
    assert found.bandwidth.spread < 0.2
    assert found.seconds < 30
    assert found.cache_bytes is not None
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_reserved_memory_covers_what_was_allocated(backend):
    target = Target(lambda: torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
    assert backend.peak_memory_bytes(target) == 100 << 20
    assert 100 << 20 <= backend.peak_reserved_bytes(target) < 200 << 20


def test_the_doctor_looks_at_the_card(capsys):
    assert main(["doctor", "--quick"]) in (0, 1)
    told = capsys.readouterr().out
    assert torch.cuda.get_device_name() in told
    assert "around nothing" in told
