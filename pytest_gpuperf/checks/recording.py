"""The list of a call's kernels by itself, without any check: what a fresh process records for the session."""

from __future__ import annotations

import sys

from pytest_gpuperf.checks.budget import Budget
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.inspection import Inspected
from pytest_gpuperf.checks.kernel_list import stored_names
from pytest_gpuperf.checks.known_calls import FirstCall
from pytest_gpuperf.checks.launches import kernel_uses
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.checks.watching import watcher_for


def record_kernels(subject: Subject) -> Inspected:
    """Return the kernels of a callable that has been measured; nothing where they differ from call to call, or fail.

    On a CPU nothing is called.
    """
    torch = sys.modules.get("torch")
    evidence = Evidence(subject, torch, watcher_for(subject.device, torch), FirstCall(), Budget())
    if not evidence.on_gpu:
        return Inspected()
    try:
        evidence.watcher.warm_up()
        launches = evidence.launches
    except Exception as error:
        return Inspected(broke_off=error)
    if launches is None:
        return Inspected()
    return Inspected(kernels=kernel_uses(launches), kernel_names=stored_names(launches))
