from __future__ import annotations

import threading

import pytest

from pytest_gpuperf.measure.backends.cpu import CpuBackend, available_bytes, cache_bytes
from pytest_gpuperf.measure.backends.fake import FakeBackend, FakeTimer
from pytest_gpuperf.measure.ceilings import Ceiling, Ceilings, measure_ceilings
from pytest_gpuperf.measure.probes import (
    COPY,
    Sizes,
    float32_arithmetic,
    numpy_probes,
    torch_probes,
    torch_threads,
)

batch = FakeTimer.batch


def test_scripted_ceilings_are_found_again():
    backend = FakeBackend(run=1, between_run_sd=0.0, copy_bytes_per_s=3e12, flops_per_s={"bf16": 6e14})
    found = measure_ceilings(backend)
    assert found.bandwidth.per_s == pytest.approx(3e12, rel=0.02)
    assert found.matmul.keys() == {"bf16"}
    assert found.matmul["bf16"].per_s == pytest.approx(6e14, rel=0.02)
    assert (found.model, found.cache_bytes, backend.probings) == ("Fake GPU", 60_000_000, 1)
    assert found.seconds == pytest.approx(backend.now_us() / 1e6) != 0


def test_a_ceiling_tells_how_far_its_two_best_batches_were_apart():
    backend = FakeBackend(run=1, between_run_sd=0.0, trial_sd=0.0, flops_per_s={}, clock_ghz=lambda batch: 1.02**batch)
    assert measure_ceilings(backend).bandwidth.spread == pytest.approx(0.02)


def test_a_slow_probe_is_looked_at_twice_and_no_more(monkeypatch):
    batches = []

    def counting(self, target, trials):
        batches.append(trials)
        return batch(self, target, trials)

    monkeypatch.setattr(FakeTimer, "batch", counting)
    backend = FakeBackend(run=1, copy_bytes_per_s=1e9, flops_per_s={})
    assert measure_ceilings(backend).bandwidth.per_s == pytest.approx(1e9, rel=0.05)
    in_warm_up = 1  # which a single batch outlasts
    assert len(batches) == in_warm_up + 2


def test_the_clock_of_the_best_batch_is_kept():
    backend = FakeBackend(run=1, between_run_sd=0.0, trial_sd=0.0, clock_ghz=lambda batch: 1.9 if batch % 2 else 1.5)
    assert measure_ceilings(backend).bandwidth.clock_ghz == pytest.approx(1.9)


def test_another_look_can_only_raise_them():
    low = Ceilings(
        model="m",
        by="b",
        bandwidth=Ceiling(per_s=1e12),
        matmul={"bf16": Ceiling(per_s=9e14)},
        margin=1.1,
        clock_margin=1.3,
    )
    high = Ceilings(
        model="m",
        by="b",
        bandwidth=Ceiling(per_s=2e12),
        matmul={"bf16": Ceiling(per_s=8e14), "fp32": Ceiling(per_s=1e13)},
        margin=1.1,
        clock_margin=1.3,
    )
    both = low.best_with(high)
    assert both.bandwidth.per_s == 2e12
    assert {kind: ceiling.per_s for kind, ceiling in both.matmul.items()} == {"bf16": 9e14, "fp32": 1e13}


def counted(probes):
    """Make each call once; return the amounts."""
    seen = {}
    for probe in probes:
        probe.call()
        seen[probe.what] = probe.amount
    return seen


SIZES = Sizes(copies_bytes=[4096], matmuls=[("fp32", 8), ("tf32", 8), ("bf16", 4)])


def test_torchs_probes_say_what_they_count():
    torch = pytest.importorskip("torch")
    expected = {COPY: 8192.0, "fp32": 1024.0, "tf32": 1024.0, "bf16": 128.0}
    assert counted(torch_probes(torch, "cpu", SIZES)) == expected


def test_probes_leave_the_tests_random_numbers_alone():
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    counted(torch_probes(torch, "cpu", SIZES))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("threads", [1, 3])
def test_numpys_probes_use_all_threads(threads):
    assert counted(numpy_probes(SIZES, threads)) == {COPY: 8192.0, "fp32": 1024.0 * threads}


def test_every_part_is_copied_and_the_threads_are_gone(monkeypatch):
    import numpy as np

    copied, real = [], np.copyto
    monkeypatch.setattr(np, "copyto", lambda target, source: (copied.append(source.nbytes), real(target, source)))
    threads = threading.active_count()
    counted(numpy_probes(Sizes(copies_bytes=[4000], matmuls=[]), 3))
    assert sum(copied) == 4000
    assert len(copied) == 3
    assert threading.active_count() == threads


def test_what_a_thread_raises_is_raised(monkeypatch):
    import numpy as np

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(np, "copyto", fail)
    with pytest.raises(MemoryError):
        counted(numpy_probes(Sizes(copies_bytes=[64], matmuls=[]), 2))


def test_torch_is_given_its_threads_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    with torch_threads(torch, 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_precision_is_set_for_the_probe_and_restored():
    torch = pytest.importorskip("torch")
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    inside = {}
    for probe in torch_probes(torch, "cpu", Sizes(copies_bytes=[], matmuls=[("tf32", 2), ("fp32", 2)])):
        inside[probe.what] = (settings.fp32_precision, float32_arithmetic(torch))
    assert inside == {"tf32": ("tf32", "tf32"), "fp32": ("ieee", "fp32")}
    assert settings.fp32_precision == before


def test_the_cpu_says_what_it_is_measured_with():
    assert CpuBackend().probing().by.startswith(("torch ", "numpy "))


def test_caches_are_counted_once_however_many_cores_share_them(tmp_path):
    def cache(cpu, index, level, kind, size, shared):
        folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(f"{text}\n")

    for cpu in ("0", "1"):
        cache(cpu, 0, "1", "Data", "48K", cpu)
        cache(cpu, 1, "1", "Instruction", "32K", cpu)
        cache(cpu, 2, "3", "Unified", "2M", "0-1")
    assert cache_bytes(tmp_path) == 2 * 48 * 1024 + 2 * 1024 * 1024


def test_what_the_system_does_not_tell_is_unknown(tmp_path):
    assert cache_bytes(tmp_path / "absent") is None
    assert available_bytes(tmp_path / "absent") > 0
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    1024 kB\n")
    assert available_bytes(tmp_path / "meminfo") == 1 << 20
