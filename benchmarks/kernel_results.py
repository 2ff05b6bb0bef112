"""Results of kernels.py: rows by table, written as they are measured, each told with its run where runs differ.

Nothing here needs a GPU, or torch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_tables import Row, markdown
from records import write_whole

MEASURED = "measured"
"""The column of rows that are of another run than most: in what that run's facts differ, its date above all."""
NOTE = f'Rows with an entry under "{MEASURED}" are of another run, with these versions where they differ.\n'

Facts = dict[str, str]


class KernelResults:
    """The rows of one results file, those of earlier runs among them."""

    def __init__(self, facts: Facts) -> None:
        """Begin with no rows; `facts` are those of the run that will add some."""
        self._facts = facts
        self._rows: dict[str, dict[str, Row]] = {}
        self._runs: dict[tuple[str, str], Facts] = {}
        self._added: set[tuple[str, str]] = set()

    @classmethod
    def read(cls, path: Path, facts: Facts) -> KernelResults:
        """Begin with the rows of a file; one of another device is refused, since targets judge all rows together."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            before, tables = content["environment"], content["results"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"--add-to: {path} is no results file of this script: {error!r}") from error
        if before.get("device") != facts["device"]:
            raise SystemExit(
                f"--add-to: {path} is of {before.get('device')}, this is {facts['device']}: measure into another file"
            )
        results = cls(facts)
        for table, rows in tables.items():
            for row in rows:
                kept = {column: value for column, value in row.items() if column != MEASURED}
                results._put(table, kept, {**before, **row.get(MEASURED, {})})
        return results

    def add(self, table: str, row: Row, order: Sequence[str]) -> None:
        """Add a row of this run, in place of that of the same name; `order` is that of all the table's names."""
        self._put(table, row, self._facts)
        self._added.add((table, name_of(row)))
        places = {name: place for place, name in enumerate(order)}
        rows = self._rows[table]
        self._rows[table] = {name: rows[name] for name in sorted(rows, key=lambda n: places.get(n, len(places)))}

    def lacking(self, names: Mapping[str, Sequence[str]]) -> list[str]:
        """Return those of the names, by table, that this run has not added."""
        return [
            f"{table}: {name}" for table, some in names.items() for name in some if (table, name) not in self._added
        ]

    def _put(self, table: str, row: Row, facts: Facts) -> None:
        name = name_of(row)
        self._rows.setdefault(table, {})[name] = row
        self._runs[table, name] = facts

    def environment(self) -> Facts:
        """Return the facts of the run that most rows are of, the later one of two with as many."""
        counts = Counter(tuple(facts.items()) for facts in self._runs.values())
        most = max(counts, key=lambda facts: (counts[facts], dict(facts).get("date", "")), default=())
        return dict(most) or self._facts

    def tables(self) -> dict[str, list[Row]]:
        """Return the rows by table; those of another run than most say so."""
        usual = self.environment()
        return {
            table: [self._told(table, name, row, usual) for name, row in rows.items()]
            for table, rows in self._rows.items()
        }

    def _told(self, table: str, name: str, row: Row, usual: Facts) -> Row:
        facts = self._runs[table, name]
        other = {key: facts.get(key, "(not said)") for key in {**usual, **facts} if facts.get(key) != usual.get(key)}
        return {**row, MEASURED: other} if other else row

    def text(self, notes: Sequence[str]) -> str:
        """Return all tables as text."""
        tables = self.tables()
        mixed = any(MEASURED in row for rows in tables.values() for row in rows)
        return markdown(tables, self.environment(), [*notes, NOTE] if mixed else notes)

    def write(self, output: Path, notes: Sequence[str]) -> None:
        """Write OUTPUT.json and OUTPUT.md."""
        content = json.dumps({"environment": self.environment(), "results": self.tables()}, indent=1)
        write_whole(content + "\n", output.with_suffix(".json"))
        write_whole(self.text(notes), output.with_suffix(".md"))


def name_of(row: Row) -> str:
    """Return what a row is of: its first column."""
    return str(next(iter(row.values())))


def chosen(names: Mapping[str, Sequence[str]], parts: Sequence[str]) -> dict[str, list[str]]:
    """Return the names by table that contain one of `parts` (`x` for `×`), all where there are none.

    Raises SystemExit for a part that no name contains.
    """
    wanted = [part.replace("x", "×") for part in parts]
    for part, plain in zip(wanted, parts, strict=True):
        if not any(part in _typed(name) for some in names.values() for name in some):
            raise SystemExit(f"--rows {plain!r}: no row of {', '.join(names)} has this in its name")
    found = {
        table: [name for name in some if not wanted or any(part in _typed(name) for part in wanted)]
        for table, some in names.items()
    }
    return {table: some for table, some in found.items() if some}


def _typed(name: str) -> str:
    return name.replace("x", "×")
