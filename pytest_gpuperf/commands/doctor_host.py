"""What the doctor says of the host."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.commands.doctor_finding import DoctorFinding, fine, matters, note
from pytest_gpuperf.measure.host import HostFacts
from pytest_gpuperf.report import units

BUSY_SHARE = 0.5
"""Of the cores that others keep busy."""
STEADY_GOVERNOR = "performance"
SWAP_THAT_COUNTS_BYTES = 64 << 20


def host_findings(host: HostFacts, *, on_gpu: bool) -> Iterator[DoctorFinding]:
    """Look at cores, load, frequency, virtualisation and swap; on a GPU most of it touches the host's time only."""
    yield _cores(host)
    yield from _load(host)
    yield from _governor(host, on_gpu)
    if host.virtual is not None:
        yield _virtual(host, on_gpu)
    yield from _swap(host)


def _cores(host: HostFacts) -> DoctorFinding:
    cores = units.count(host.cores, "core")
    if host.quota_cores is not None and host.quota_cores < host.cores:
        seen = f"{cores}, of which the container may use the time of {host.quota_cores:g}"
        remedy = "a container that uses up its share is stopped for milliseconds: give it whole cores (cpuset)"
        return matters("cores", seen, remedy)
    if host.cores < 2:
        return matters("cores", cores, "give the benchmarks a second core, so that the system has one")
    return fine("cores", cores)


def _load(host: HostFacts) -> Iterator[DoctorFinding]:
    if host.load is None:
        return
    seen = f"{host.load:.1f} over the last minute on {units.count(host.cores, 'core')}"
    if host.load > BUSY_SHARE * host.cores:
        yield matters("load", seen, "measure when nothing else runs here; `top` shows what does")
    else:
        yield fine("load", seen)


def _governor(host: HostFacts, on_gpu: bool) -> Iterator[DoctorFinding]:
    if not host.governors:
        yield note("frequency", "nobody tells how the cores' frequency is set", "none: a virtual machine hides it")
    elif host.governors == (STEADY_GOVERNOR,):
        yield fine("frequency", f"governor {STEADY_GOVERNOR}")
    else:
        seen = f"governor {', '.join(host.governors)}"
        yield (note if on_gpu else matters)("frequency", seen, "sudo cpupower frequency-set --governor performance")


def _virtual(host: HostFacts, on_gpu: bool) -> DoctorFinding:
    if not host.virtual:
        return fine("virtualisation", "none")
    device = "times on the GPU hardly feel it" if on_gpu else "neighbours may slow it down unseen"
    return note("virtualisation", f"a hypervisor is below; {device}", "extend the baseline over several sessions")


def _swap(host: HostFacts) -> Iterator[DoctorFinding]:
    if host.swap_used_bytes is None:
        return
    if host.swap_used_bytes > SWAP_THAT_COUNTS_BYTES:
        seen = f"{units.size(host.swap_used_bytes)} in use"
        yield note(
            "swap", seen, "free memory, then `sudo swapoff -a`: pages that come back from disk take milliseconds"
        )
    else:
        yield fine("swap", "not in use")
