from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure import nvml as nvml_module
from pytest_gpuperf.measure.device_state import DeviceReading, summarise_readings
from pytest_gpuperf.measure.nvml import Nvml, devices_seen


class NVMLError(Exception):
    """What the library raises."""


class Library:
    """A scripted NVML: one device, some of whose functions may be denied."""

    def __init__(self, *, reasons=0, processes=(), denied=(), uuids=("GPU-one",), starts=True):
        self._reasons, self._processes, self._denied, self._uuids = reasons, processes, set(denied), uuids
        self._starts = starts

    def nvmlInit(self):
        if not self._starts:
            raise NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self._uuids:
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return self._told("temperature", 61)

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._told("power", 412_500)

    def nvmlDeviceGetClockInfo(self, handle, domain):
        return self._told("clock", 1755)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._told("reasons", self._reasons)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self._told("processes", [SimpleNamespace(pid=pid) for pid in self._processes])

    def nvmlSystemGetDriverVersion(self):
        return self._told("driver", "580.159.04")

    def _told(self, what, value):
        if what in self._denied:
            raise NVMLError("Insufficient Permissions")
        return value


def test_everything_is_read_in_our_units():
    assert Nvml("one", Library()).read() == DeviceReading(sm_clock_ghz=1.755, temperature_c=61.0, power_w=412.5)


@pytest.mark.parametrize(
    ("bits", "reasons", "throttled"),
    [
        (0x0001, ("idle",), False),
        (0x0004, ("power cap",), False),
        (0x0008, ("hardware slowdown",), True),
        (0x0020 | 0x0004, ("power cap", "software thermal slowdown"), True),
        (0x0040, ("hardware thermal slowdown",), True),
        (0x0080, ("power brake",), True),
    ],
)
def test_only_slowing_down_from_outside_is_throttling(bits, reasons, throttled):
    reading = Nvml("one", Library(reasons=bits)).read()
    assert reading.throttle_reasons == reasons
    assert reading.throttled is throttled


@pytest.mark.parametrize(("processes", "others"), [((), 0), ((1,), 0), ((1, 2, 3), 2)])
def test_other_processes_are_counted_without_this_one(processes, others):
    assert Nvml("one", Library(processes=processes)).read().other_processes == others


def test_older_libraries_name_the_throttle_reasons_otherwise():
    class Older(Library):
        nvmlDeviceGetCurrentClocksEventReasons = None

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
            return 0x0008

    assert Nvml("one", Older()).read().throttled


def test_a_slice_of_a_device_is_found_by_its_own_uuid():
    assert Nvml("one", Library(uuids=("MIG-one",))).read().notes == ()


@pytest.mark.parametrize("library", [Library(starts=False), Library(uuids=())], ids=["no driver", "no such device"])
def test_without_nvml_everything_is_unknown_and_a_note_says_why(library):
    nvml = Nvml("one", library)
    reading = nvml.read()
    assert reading == DeviceReading(notes=reading.notes)
    assert reading.notes[0].startswith("no NVML (NVMLError: ")
    assert nvml.sm_clock_ghz() is None
    assert nvml.driver() == ""


def test_the_library_itself_may_be_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "no NVML (ModuleNotFoundError" in Nvml("one").read().notes[0]


@pytest.mark.parametrize("denied", ["temperature", "power", "clock", "reasons", "processes"])
def test_what_is_denied_is_unknown_and_noted_once_and_the_rest_is_read(denied):
    nvml = Nvml("one", Library(denied=[denied]))
    for _ in range(3):
        reading = nvml.read()
    assert reading.notes == nvml.notes == ("NVML could not tell everything (NVMLError: Insufficient Permissions)",)
    assert (reading.temperature_c is None) is (denied == "temperature")
    assert (reading.power_w is None) is (denied == "power")
    assert (reading.sm_clock_ghz is None) is (denied == "clock")


def test_a_device_that_is_lost_on_the_way_reads_as_unknown():
    library = Library()
    nvml = Nvml("one", library)
    nvml.read()
    library._denied |= {"temperature", "power", "clock", "reasons", "processes"}
    assert nvml.read().temperature_c is None


def test_readings_are_summed_up_as_mean_worst_and_ever():
    state = summarise_readings(
        [
            DeviceReading(sm_clock_ghz=1.5, temperature_c=50.0, power_w=300.0, throttle_reasons=("power cap",)),
            DeviceReading(sm_clock_ghz=1.7, temperature_c=60.0, other_processes=2),
            DeviceReading(throttle_reasons=("power cap", "idle")),
        ]
    )
    assert state.sm_clock_ghz == pytest.approx(1.6)
    assert state.temperature_c == 60.0
    assert state.power_w == 300.0
    assert state.throttle_reasons == ("power cap", "idle")
    assert state.other_processes == 2


def test_no_readings_are_an_empty_state():
    assert summarise_readings([]).temperature_c is None


class Stuck(Library):
    """A driver that never comes back until the test is over."""

    def __init__(self, released):
        super().__init__()
        self._released = released

    def nvmlInit(self):
        self._released.wait()

    def nvmlDeviceGetCount(self):
        return 1


def test_a_driver_that_is_stuck_is_given_up(monkeypatch):
    monkeypatch.setattr(nvml_module, "LONGEST_START_S", 0.01)
    released = threading.Event()
    try:
        nvml = Nvml("one", Stuck(released))
        assert nvml.notes == (
            "no NVML (NvmlAbsentError: nvmlInit not done after 0.01 s): temperature, power and throttling are unknown",
        )
        assert nvml.read() == DeviceReading(notes=nvml.notes)
        assert devices_seen(Stuck(released)) is None
    finally:
        released.set()


NONSENSE = [0xFFFFFFFF, -1, None, "61", b"", [], float("nan"), 1e300]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
@pytest.mark.parametrize("what", ["temperature", "power", "clock", "reasons", "processes"])
def test_nonsense_is_unknown_and_noted(nonsense, what):
    class Confused(Library):
        def _told(self, asked, value):
            return nonsense if asked == what else value

    nvml = Nvml("one", Confused())
    reading = nvml.read()
    assert (reading.temperature_c is None) is (what == "temperature")
    assert (reading.power_w is None) is (what == "power")
    assert (reading.sm_clock_ghz is None) is (what == "clock")
    assert reading.other_processes == 0
    if what in ("temperature", "power", "clock"):
        assert reading.notes[0].startswith("NVML could not tell everything (")


@pytest.mark.parametrize(
    ("told", "version"), [("580.65", "580.65"), (b"580.65", "580.65"), (b"58\xff", "58\ufffd"), (None, "")]
)
def test_the_drivers_version_is_text(told, version):
    class Other(Library):
        def nvmlSystemGetDriverVersion(self):
            return told

    assert Nvml("one", Other()).driver() == version


def test_readings_at_the_ends_of_what_can_be_are_taken():
    class Extreme(Library):
        def _told(self, asked, value):
            return {"temperature": 0, "power": 0, "clock": 0}.get(asked, value)

    assert Nvml("one", Extreme()).read() == DeviceReading(sm_clock_ghz=0.0, temperature_c=0.0, power_w=0.0)
