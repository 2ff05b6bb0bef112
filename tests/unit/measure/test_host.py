from __future__ import annotations

import pytest

from pytest_gpuperf.measure.host import read_host


@pytest.fixture
def root(tmp_path):
    def write(**files):
        places = {
            "quota": "sys/fs/cgroup/cpu.max",
            "load": "proc/loadavg",
            "cpuinfo": "proc/cpuinfo",
            "meminfo": "proc/meminfo",
            "governor0": "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "governor1": "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
        }
        for name, text in files.items():
            file = tmp_path / places[name]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


def test_everything_that_linux_tells(root):
    host = read_host(
        root(
            quota="150000 100000\n",
            load="3.50 2.00 1.00 2/300 4711\n",
            cpuinfo="processor\t: 0\nflags\t\t: fpu sse hypervisor avx2\n",
            meminfo="MemTotal:  100 kB\nSwapTotal:    2048 kB\nSwapFree:     1024 kB\n",
            governor0="powersave\n",
            governor1="powersave\n",
        )
    )
    assert host.quota_cores == 1.5
    assert host.load == 3.5
    assert host.governors == ("powersave",)
    assert host.virtual is True
    assert host.swap_used_bytes == 1 << 20
    assert host.cores >= 1


def test_no_limit_no_hypervisor_no_swap(root):
    host = read_host(
        root(quota="max 100000\n", cpuinfo="flags : fpu hypervisor_not\n", meminfo="SwapTotal: 0 kB\nSwapFree: 0 kB\n")
    )
    assert (host.quota_cores, host.virtual, host.swap_used_bytes) == (None, False, 0)


@pytest.mark.parametrize("text", ["", "nonsense", "1 0"])
def test_what_is_not_told_is_unknown(root, text):
    host = read_host(root(quota=text, load=text.replace(" ", "x"), cpuinfo=text, meminfo=text))
    assert (host.quota_cores, host.load, host.governors, host.virtual, host.swap_used_bytes) == (
        None,
        None,
        (),
        None,
        None,
    )


def test_a_system_without_proc_tells_its_cores(tmp_path):
    assert read_host(tmp_path / "absent").cores >= 1
