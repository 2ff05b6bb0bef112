"""Kernel lists, which are long and the same in every run of a benchmark, are written once an entry."""

from __future__ import annotations

from typing import Any


def share_kernels(holder: dict[str, Any]) -> dict[str, Any]:
    """`holder` (a plain entry or outcome) with its runs' kernel lists in `kernel_lists`, referred to by index."""
    lists: list[list[str]] = []
    runs = [_with_index(run, lists) for run in holder["runs"]]
    return holder | {"runs": runs} | ({"kernel_lists": lists} if lists else {})


def unshare_kernels(holder: Any) -> None:
    """Undo `share_kernels` in place. Raises ValueError for a reference to no list; the schema finds other faults."""
    if not isinstance(holder, dict):
        return
    lists = holder.pop("kernel_lists", [])
    runs = holder.get("runs")
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, dict) and run.get("kernels") is not None:
            run["kernels"] = _looked_up(run["kernels"], lists)


def _with_index(run: dict[str, Any], lists: list[list[str]]) -> dict[str, Any]:
    kernels = run.get("kernels")
    if kernels is None:
        return run
    if kernels not in lists:
        lists.append(kernels)
    return run | {"kernels": lists.index(kernels)}


def _looked_up(index: Any, lists: Any) -> Any:
    if not isinstance(lists, list) or type(index) is not int or not 0 <= index < len(lists):
        raise ValueError(f"kernels refers to {index!r}, which is no place in kernel_lists")
    return lists[index]
