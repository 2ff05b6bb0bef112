"""benchmarks/traffic_counters.py and traffic_tables.py: what two counters say of a memory, and what is made of it."""

from __future__ import annotations

import importlib.util
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def counters():
    yield load("traffic_counters")
    del sys.modules["traffic_counters"]


@pytest.fixture(scope="module")
def tables():
    yield load("traffic_tables")
    del sys.modules["traffic_tables"]


HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def line(launch, kernel, metric, value, unit="byte"):
    place = '"1","7","(128, 1, 1)","(132, 1, 1)","0","9.0","Command line profiler metrics"'
    return f'"{launch}","4711","python","127.0.0.1","{kernel}",{place},"{metric}","{unit}","{value}"'


def launch(number, kernel, read, written, unit="byte"):
    return [
        line(number, kernel, "dram__bytes_read.sum", read, unit),
        line(number, kernel, "dram__bytes_write.sum", written, unit),
    ]


def report(*launches):
    lines = ["==PROF== Connected to process 4711", "a line of the program", HEADER]
    return "\n".join([*lines, *(text for one in launches for text in one), "==PROF== Disconnected"])


def test_launches_are_read_in_order_with_their_bytes(counters):
    text = report(launch(0, "copy(float *, int)", "134,217,728", "100"), launch(1, "copy(float *, int)", "2", "3"))
    first, second = counters.parse_ncu(text)
    assert (first.kernel, first.read_bytes, first.written_bytes) == ("copy(float *, int)", 134217728.0, 100.0)
    assert (second.read_bytes, second.written_bytes) == (2.0, 3.0)


@pytest.mark.parametrize(("unit", "factor"), [("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9)])
def test_units_are_decimal(counters, unit, factor):
    (kernel,) = counters.parse_ncu(report(launch(0, "k", "1.5", "2", unit)))
    assert (kernel.read_bytes, kernel.written_bytes) == (1.5 * factor, 2 * factor)


def test_another_unit_is_no_number_of_bytes(counters):
    with pytest.raises(ValueError, match="'%', not in bytes"):
        counters.parse_ncu(report(launch(0, "k", "1", "2", "%")))


def test_other_metrics_and_half_counted_launches_are_passed_over(counters):
    text = report(
        [line(0, "k", "gpu__time_duration.sum", "5", "ns"), *launch(0, "k", "1", "2")],
        [line(1, "k", "dram__bytes_read.sum", "7")],
    )
    assert [kernel.read_bytes for kernel in counters.parse_ncu(text)] == [1.0]


@pytest.mark.parametrize("text", ["", "==ERROR== nothing", HEADER])
def test_nothing_counted_is_no_launch(counters, text):
    assert counters.parse_ncu(text) == []


def test_launches_are_sorted_by_the_separating_kernel(counters):
    names = ["before", "at::spin_kernel(long)", "a", "b", "at::spin_kernel(long)", "at::spin_kernel(long)", "c"]
    kernels = counters.parse_ncu(report(*(launch(i, name, 1, 1) for i, name in enumerate(names))))
    found = [[kernel.kernel for kernel in one] for one in counters.segments(kernels, "spin_kernel")]
    assert found == [["a", "b"], [], ["c"]]


@pytest.fixture
def ncu(tmp_path):
    """A program that stands in for ncu: prints what it is to print, and the arguments it got."""

    def make(text):
        (tmp_path / "said").write_text(text)
        path = tmp_path / "ncu"
        path.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {tmp_path}/said\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path), tmp_path / "arguments"

    return make


def test_ncu_counts_between_the_marks_of_the_program(counters, ncu):
    path, arguments = ncu(report(launch(0, "k", 4, 5)))
    (kernel,) = counters.counted_by_ncu(path, ["python", "program.py"], timeout_s=20)
    assert kernel.written_bytes == 5
    said = arguments.read_text()
    assert said.endswith("--metrics dram__bytes_read.sum,dram__bytes_write.sum python program.py\n")
    assert "--profile-from-start off" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "only administrators .*ERR_NVGPUCTRPERM"),
        ("==ERROR== The application returned an error code (1).", r"ncu: The application returned an error code"),
        ("==WARNING== No kernels were profiled.", "ncu: No kernels were profiled"),
        ("", "ncu: no kernel was counted"),
    ],
)
def test_a_refusal_is_told_plainly(counters, ncu, text, reason):
    with pytest.raises(counters.RefusedError, match=reason):
        counters.counted_by_ncu(ncu(text)[0], ["python"], timeout_s=20)


def test_without_ncu_it_says_so(counters, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(counters, "USUAL_PLACES", ())
    with pytest.raises(counters.RefusedError, match="not installed"):
        counters.find_ncu()
    with pytest.raises(counters.RefusedError, match="FileNotFoundError"):
        counters.counted_by_ncu(str(tmp_path / "ncu"), ["python"], timeout_s=20)


class Nvml:
    """A scripted NVML: the share of its bandwidth, in percent, between two samples."""

    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, percent=50.0, status=0, supported=True, denied=""):
        self.percent, self.status, self.supported, self.denied = percent, status, supported, denied
        self.log = []

    def nvmlGpmQueryDeviceSupport(self, handle):
        self._perhaps_deny("support")
        return SimpleNamespace(isSupportedDevice=self.supported)

    def nvmlGpmSampleAlloc(self):
        return SimpleNamespace()

    def nvmlGpmSampleFree(self, sample):
        self.log.append("free")

    def nvmlGpmSampleGet(self, handle, sample):
        self._perhaps_deny("sample")
        self.log.append("sample")

    def c_nvmlGpmMetricsGet_t(self):
        return SimpleNamespace(metrics=[SimpleNamespace()])

    def nvmlGpmMetricsGet(self, request):
        assert request.numMetrics == request.version == 1
        assert request.metrics[0].metricId == 10
        request.metrics[0].nvmlReturn, request.metrics[0].value = self.status, self.percent
        return request

    def _perhaps_deny(self, what):
        if what == self.denied:
            raise RuntimeError("Insufficient Permissions")


def test_samples_are_taken_around_the_work_and_freed(counters):
    nvml = Nvml(percent=42.0)
    share = counters.BandwidthMeter(nvml, "device").share_used(lambda: nvml.log.append("work"))
    assert share == 0.42
    assert nvml.log == ["sample", "work", "sample", "free", "free"]


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (Nvml(supported=False), "no counters of its memory"),
        (Nvml(denied="support"), "Insufficient Permissions"),
        (Nvml(denied="sample"), "Insufficient Permissions"),
        (Nvml(status=3), "status 3"),
        (Nvml(percent=float("nan")), "answered nan"),
        (Nvml(percent=101.0), "answered 101"),
    ],
)
def test_a_memory_that_cannot_be_read_is_refused_and_nothing_kept(counters, nvml, reason):
    with pytest.raises(counters.RefusedError, match=reason):
        counters.BandwidthMeter(nvml, "device").share_used(lambda: None)
    assert nvml.log.count("free") == (0 if nvml.denied == "support" or not nvml.supported else 2)


def test_a_copy_gives_the_scale(counters):
    bandwidth = counters.Bandwidth.of_copy(4e9, share=0.8, seconds_a_call=1e-3)
    assert bandwidth.bytes_per_s == pytest.approx(5e12)
    assert bandwidth.bytes_a_call(share=0.1, seconds_a_call=2e-3) == pytest.approx(1e9)


def test_a_counter_that_does_not_move_gives_none(counters):
    with pytest.raises(counters.RefusedError, match="did not move"):
        counters.Bandwidth.of_copy(4e9, share=0.0, seconds_a_call=1e-3)


def test_attention_moves_its_operands_and_the_naive_one_its_scores(tables):
    tensor, sums, scores = 2 * 2 * 3 * 100 * 64, 4 * 2 * 3 * 100, 2 * 2 * 3 * 100**2
    forward = tables.attention_bytes((2, 3, 100, 64), causal=False, backward=False)
    assert forward["triton"] == forward["flash"] == forward["cudnn"] == 4 * tensor + sums
    assert forward["unfused"] == 4 * tensor + 6 * scores
    causal = tables.attention_bytes((2, 3, 100, 64), causal=True, backward=False)
    assert causal["unfused"] - forward["unfused"] == 2 * scores
    backward = tables.attention_bytes((2, 3, 100, 64), causal=True, backward=True)
    assert backward["triton"] == 13 * tensor + 7 * sums
    assert "unfused" not in backward


def test_rows_tell_what_each_counter_makes_of_the_count(tables):
    row = tables.row_of("p", "ours", 2e6, {"NVML MB": 2.5, "ncu read MB": 1.5, "ncu written MB": 1.0, "kernels": 2})
    assert row["NVML / counted"] == row["ncu / counted"] == pytest.approx(1.25)
    assert set(tables.row_of("p", "ours", 2e6, {})) == {"problem", "implementation", "counted MB"}


def test_the_table_names_what_was_refused(tables):
    rows = [tables.row_of("p", "ours", 2e6, {"NVML MB": 2.5}), tables.row_of("p", "theirs", 2e6, {})]
    text = tables.markdown({"device": "X", "ncu": "refused: not installed"}, rows)
    assert "device X, ncu refused: not installed" in text
    assert "| ours" in text
    assert "1.250" in text
