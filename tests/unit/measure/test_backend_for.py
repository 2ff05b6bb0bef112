from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from pytest_gpuperf.measure import backends
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.errors import DeviceUnavailableError


@pytest.fixture
def no_gpu():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")


@pytest.mark.parametrize("device", ["cpu", "CPU", " cpu ", "cpu:0"])
def test_the_cpu_by_name(device):
    assert backend_for(device).device == "cpu"


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:-1", "cpu:1", "", "cuda:1:2"])
def test_an_unknown_device_is_one_clear_error(device):
    with pytest.raises(DeviceUnavailableError, match=r"--gpuperf-device=.*: unknown device; known are `cpu`, `cuda`"):
        backend_for(device)


def test_a_gpu_that_is_not_there_is_one_clear_error(no_gpu):
    with pytest.raises(DeviceUnavailableError, match=r"--gpuperf-device=cuda: torch .* finds no usable GPU.*=cpu"):
        backend_for("cuda")


def test_what_torch_warns_of_is_part_of_the_error(no_gpu, monkeypatch):
    def is_available():
        warnings.warn("The NVIDIA driver on your system is too old\nmore", stacklevel=1)
        return False

    monkeypatch.setattr("torch.cuda.is_available", is_available)
    with pytest.raises(DeviceUnavailableError, match=r"no usable GPU \(The NVIDIA driver on your system is too old\)"):
        backend_for("cuda")
    monkeypatch.setattr(backends, "_driver_installed", lambda: True)
    assert backend_for(None).device == "cpu"


def test_a_gpu_without_torch_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    with pytest.raises(DeviceUnavailableError, match=r"torch is not installed.*--gpuperf-device=cpu"):
        backend_for("cuda:1")


def test_unstated_is_the_cpu_where_there_is_no_gpu(no_gpu):
    assert backend_for(None).device == "cpu"


def test_unstated_is_the_cpu_without_torch(monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    assert backend_for(None).device == "cpu"


def test_torch_is_not_imported_where_no_driver_is_installed(monkeypatch):
    code = (
        "import sys\n"
        "from pytest_gpuperf.measure import backends\n"
        "backends.DRIVERS = {sys.platform: 'no-such-library.so'}\n"
        "assert backends.backend_for(None).device == 'cpu'\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


BROKEN = (
    ImportError("libcudart.so.13: cannot open shared object file"),
    OSError("[WinError 126]"),
    AttributeError("partially initialized module"),
)


@pytest.mark.parametrize("error", BROKEN, ids=lambda error: type(error).__name__)
def test_a_torch_that_cannot_be_imported_is_one_clear_error(monkeypatch, error):
    def broken(name):
        assert name == "torch"
        raise error

    monkeypatch.setattr(backends, "find_spec", lambda _: "there")
    monkeypatch.setattr(backends, "import_module", broken)
    told = rf"and torch cannot be imported \({type(error).__name__}: .*\): install it anew, or .*--gpuperf-device=cpu"
    with pytest.raises(DeviceUnavailableError, match=f"--gpuperf-device=cuda:0, {told}"):
        backend_for("cuda:0")
    monkeypatch.setattr(backends, "_driver_installed", lambda: True)
    with pytest.raises(DeviceUnavailableError, match=f"a GPU's driver is installed, {told}"):
        backend_for(None)
    monkeypatch.setattr(backends, "_driver_installed", lambda: False)
    assert backend_for(None).device == "cpu"
    assert backend_for("cpu").device == "cpu"
