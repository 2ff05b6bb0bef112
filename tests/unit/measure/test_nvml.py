from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.device_state import DeviceReading, summarise_readings
from pytest_gpuperf.measure.nvml import Nvml


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
    assert len(reading.notes) == 1 or reading.notes == ()
    assert "Insufficient Permissions" in nvml.notes[0]
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
