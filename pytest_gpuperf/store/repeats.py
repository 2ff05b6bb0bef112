"""What most runs of a benchmark have in common is written once: kernels, notes, and the session they come from."""

from __future__ import annotations

from typing import Any

TABLES = {"kernels": "kernel_lists", "notes": "note_lists"}
"""For each list that runs share, the field of their entry (or outcome) that holds the distinct ones."""


def fold(holder: dict[str, Any]) -> dict[str, Any]:
    """`holder` (a plain entry or outcome) with its runs' shared lists in tables, referred to by index.

    A run whose session is that of the run before does not name it: runs can be added without touching a line.
    """
    tables: dict[str, list[list[str]]] = {name: [] for name in TABLES.values()}
    runs = []
    session = ""
    for run in holder["runs"]:
        runs.append(_folded(run, session, tables))
        session = run.get("session", "")
    return holder | {"runs": runs} | {name: table for name, table in tables.items() if table}


def unfold(holder: Any) -> None:
    """Undo `fold` in place. Raises ValueError for a reference to no list; the schema finds all other faults."""
    if not isinstance(holder, dict):
        return
    tables = {name: holder.pop(name, []) for name in TABLES.values()}
    session: Any = ""
    runs = holder.get("runs")
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, dict):
            session = run.setdefault("session", session)
            _unfold_lists(run, tables)


def _folded(run: dict[str, Any], session: str, tables: dict[str, list[list[str]]]) -> dict[str, Any]:
    indices = {field: _index(run[field], tables[name]) for field, name in TABLES.items() if run.get(field) is not None}
    rest = {field: value for field, value in run.items() if field != "session"}
    own = run.get("session", "")
    return rest | indices | ({} if own == session else {"session": own})


def _index(shared: list[str], table: list[list[str]]) -> int:
    if shared not in table:
        table.append(shared)
    return table.index(shared)


def _unfold_lists(run: dict[str, Any], tables: dict[str, Any]) -> None:
    for field, name in TABLES.items():
        index, table = run.get(field), tables[name]
        if index is None:
            continue
        if not isinstance(table, list) or type(index) is not int or not 0 <= index < len(table):
            raise ValueError(f"{field} refers to {index!r}, which is not in {name}")
        run[field] = table[index]
