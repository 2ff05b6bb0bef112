from __future__ import annotations

import pytest

from pytest_gpuperf.measure.device_facts import DeviceFacts, read_facts
from pytest_gpuperf.measure.nvml import Nvml, devices_seen


class NVMLError(Exception):
    pass


ANSWERS = {
    "nvmlDeviceGetHandleByUUID": "handle",
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetEnforcedPowerLimit": 600_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlSystemGetCudaDriverVersion": 13_020,
    "nvmlDeviceGetCount": 2,
    "nvmlInit": None,
}


class Library:
    """A scripted NVML; `faults` maps a function's name to what it says in place of an answer."""

    def __init__(self, **faults):
        self.faults = faults

    def __getattr__(self, name):
        if name not in ANSWERS:
            raise AttributeError(name)

        def answer(*_arguments):
            if name in self.faults or "everything" in self.faults:
                raise NVMLError(self.faults.get(name, self.faults.get("everything")))
            return ANSWERS[name]

        return answer


def test_everything_is_told_in_our_units():
    assert read_facts(Nvml("one", Library())) == DeviceFacts(
        persistence=True,
        ecc=True,
        mig=False,
        highest_clock_ghz=1.98,
        power_limit_w=600.0,
        usual_power_limit_w=700.0,
        cuda_of_driver=(13, 2),
        problems={},
    )


def test_what_a_card_does_not_have_is_no_problem():
    facts = read_facts(Nvml("one", Library(nvmlDeviceGetMigMode="Not Supported", nvmlDeviceGetEccMode="Not Supported")))
    assert (facts.mig, facts.ecc, facts.problems) == (None, None, {})


def test_what_is_denied_is_unknown_with_its_reason():
    facts = read_facts(Nvml("one", Library(nvmlDeviceGetPersistenceMode="Insufficient Permissions")))
    assert facts.persistence is None
    assert facts.problems == {"persistence": "NVMLError: Insufficient Permissions"}
    assert facts.ecc is True


def test_a_lost_card_leaves_everything_unknown():
    library = Library()
    nvml = Nvml("one", library)
    library.faults["everything"] = "GPU is lost"
    facts = read_facts(nvml)
    assert facts.highest_clock_ghz is None
    assert set(facts.problems.values()) == {"NVMLError: GPU is lost"}


def test_without_nvml_nothing_is_asked():
    facts = read_facts(Nvml("one", Library(nvmlInit="Driver Not Loaded")))
    assert facts == DeviceFacts(absent=facts.absent)
    assert facts.absent.startswith("no NVML (NVMLError: Driver Not Loaded)")


@pytest.mark.parametrize(("faults", "seen"), [({}, 2), ({"nvmlInit": "Driver Not Loaded"}, None)])
def test_devices_are_counted_without_torch(faults, seen):
    assert devices_seen(Library(**faults)) == seen
