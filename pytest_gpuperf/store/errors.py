"""What can go wrong with stored files; every message names the file, what is wrong, and the remedy."""

from __future__ import annotations


class StoreError(Exception):
    """A stored file or its place cannot be used; the file has been left as it was."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}. {remedy}")
        self.where = where
        self.problem = problem
        self.remedy = remedy


class UnreadableFileError(StoreError):
    """The file is there but cannot be read: permissions, a folder of that name, a dangling symbolic link."""


class UnwritableFileError(StoreError):
    """The file cannot be written: a read-only file, folder or file system, or a full disk."""


class LockedFileError(StoreError):
    """Another process has held the file's lock for longer than we wait."""


class DamagedFileError(StoreError):
    """The file's content cannot be used; the subclasses say how."""


class EmptyFileError(DamagedFileError):
    """The file has no content."""


class TruncatedFileError(DamagedFileError):
    """The file ends in the middle of its JSON text."""


class BrokenFileError(DamagedFileError):
    """The file is no strict JSON, or its values are not what the schema asks for; the message gives the JSON path."""


class ForeignFileError(DamagedFileError):
    """The file is JSON of another tool, or of another kind than was asked for."""


class NewerSchemaError(StoreError):
    """The file was written by a newer version of the plugin."""


class InvalidNameError(StoreError):
    """The name of a baseline or session cannot be a file name everywhere."""


class StorageLocationError(StoreError):
    """The storage location is of a kind that this installation cannot open."""


class UnstorableValueError(StoreError):
    """A record holds a number that strict JSON has no form for (NaN or infinity)."""


class IncomparableRunsError(StoreError):
    """Runs of another timer, cache mode or workload cannot be added to an entry; `reasons` has one for each key."""

    def __init__(self, reasons: dict[str, str]) -> None:
        listed = "; ".join(f"{key} ({reason})" for key, reason in sorted(reasons.items()))
        super().__init__(
            "baseline",
            f"these entries cannot be extended with runs of another kind: {listed}",
            "Replace them with --gpuperf-save-baseline, or measure as the baseline was measured",
        )
        self.reasons = reasons
