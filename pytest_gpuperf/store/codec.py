"""Records to bytes and back; whatever the bytes are, decoding gives a record or a `StoreError`."""

from __future__ import annotations

import numbers
from typing import Any, TypeVar

import msgspec

from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.store import schema
from pytest_gpuperf.store.errors import BrokenFileError, ForeignFileError, NewerSchemaError, UnstorableValueError
from pytest_gpuperf.store.layout import Layout, storable, text_of
from pytest_gpuperf.store.parse import parse
from pytest_gpuperf.store.repeats import TABLES, fold, unfold
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo, SessionRecord

Record = TypeVar("Record", Baseline, SessionRecord)

_ONE_EACH_LINE: Layout = {"*": None}
_ENTRY: dict[str, Layout] = dict.fromkeys(("runs", *TABLES.values()), _ONE_EACH_LINE)
_BASELINE_LAYOUT: Layout = {"sessions": _ONE_EACH_LINE, "entries": {"*": _ENTRY}}
_SESSION_LAYOUT: Layout = {"outcomes": {"*": {**_ENTRY, "trials": {"*": {}}}}}
_REMEDY = "Restore the file from version control, or remove it and measure again"


def encode_baseline(baseline: Baseline, where: str) -> bytes:
    """The file's content for a baseline; `where` names the file in errors. Raises UnstorableValueError."""
    content = _plain(baseline, where)
    return _file_text(
        {
            "format": schema.BASELINE_FORMAT,
            "schema": schema.SCHEMA_VERSION,
            "machine_model": content["machine_model"],
            "sessions": _sorted(content["sessions"]),
            "entries": {key: _sorted(fold(entry)) for key, entry in _sorted(content["entries"]).items()},
        },
        _BASELINE_LAYOUT,
    )


def encode_session(record: SessionRecord, where: str) -> bytes:
    """The file's content for a session record; `where` names the file in errors. Raises UnstorableValueError."""
    content = _plain(record, where)
    content["outcomes"] = [_sorted(fold(outcome)) for outcome in content["outcomes"]]
    header = {"format": schema.SESSION_FORMAT, "schema": schema.SCHEMA_VERSION}
    return _file_text(header | _sorted({key: content[key] for key in content if key != "schema"}), _SESSION_LAYOUT)


def decode_baseline(data: bytes, where: str) -> Baseline:
    """The baseline in a file's content. Raises DamagedFileError or NewerSchemaError, which name `where`."""
    content = _current_content(parse(data, where), schema.BASELINE_FORMAT, where)
    _unfold_all(content.get("entries"), "entries", where)
    baseline = _converted(content, Baseline, where)
    _check_references(baseline, where)
    return baseline


def decode_session(data: bytes, where: str) -> SessionRecord:
    """The session record in a file's content. Raises DamagedFileError or NewerSchemaError, which name `where`."""
    content = _current_content(parse(data, where), schema.SESSION_FORMAT, where)
    _unfold_all(content.get("outcomes"), "outcomes", where)
    record = _converted(content, SessionRecord, where)
    for index, outcome in enumerate(record.outcomes):
        _check_runs(outcome.runs, f"$.outcomes[{index}]", where)
    return record


def _plain(record: Baseline | SessionRecord, where: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = storable(msgspec.to_builtins(record, enc_hook=_plain_number))
    except ValueError as error:
        raise UnstorableValueError(
            where, f"cannot be written, {error}", "Measure again; if it persists, please report it"
        ) from error
    return content


def _plain_number(value: object) -> float:
    """The built-in number that a numpy scalar stands for."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _file_text(content: dict[str, Any], layout: Layout) -> bytes:
    return text_of(content, layout).encode("utf-8")


def _sorted(mapping: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(mapping.items()))


def _current_content(content: Any, expected_format: str, where: str) -> dict[str, Any]:
    """The content at today's schema, without the format tag; foreign and newer files are refused."""
    if not isinstance(content, dict) or content.get("format") != expected_format:
        raise ForeignFileError(
            where,
            f'is not a {expected_format}: it has no "format": "{expected_format}"',
            "Move it away, or point --gpuperf-storage and --gpuperf-baseline at our own files",
        )
    version = content.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BrokenFileError(where, "has no usable schema version at $.schema (a whole number from 1 on)", _REMEDY)
    if version > schema.SCHEMA_VERSION:
        raise NewerSchemaError(
            where,
            f"was written at schema {version}, this version of pytest-gpuperf reads up to {schema.SCHEMA_VERSION}",
            "Upgrade pytest-gpuperf",
        )
    return _upgraded({key: value for key, value in content.items() if key != "format"}, version, where)


def _upgraded(content: dict[str, Any], version: int, where: str) -> dict[str, Any]:
    for old in range(version, schema.SCHEMA_VERSION):
        try:
            content = schema.UPGRADES[old](content)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BrokenFileError(where, f"does not hold what schema {old} asks for ({error!r})", _REMEDY) from error
    return content | {"schema": schema.SCHEMA_VERSION}


def _unfold_all(holders: Any, name: str, where: str) -> None:
    members = holders.items() if isinstance(holders, dict) else enumerate(holders if isinstance(holders, list) else ())
    for key, holder in members:
        try:
            unfold(holder)
        except ValueError as error:
            raise BrokenFileError(where, f"{error}, at $.{name}[{key!r}]", _REMEDY) from error


def _converted(content: dict[str, Any], kind: type[Record], where: str) -> Record:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        problem = _located(content) or str(error)
        raise BrokenFileError(where, f"does not fit its schema: {problem}", _REMEDY) from error


def _located(content: dict[str, Any]) -> str | None:
    """The first error in a member of `sessions` or `entries`, with that member's own key in its path."""
    for name, kind in (("sessions", SessionInfo), ("entries", Entry)):
        members = content.get(name)
        for key, member in members.items() if isinstance(members, dict) else ():
            try:
                msgspec.convert(member, kind)
            except msgspec.ValidationError as error:
                path = f'$.{name}["{key}"]'
                text = str(error)
                return text.replace("`$", f"`{path}") if "`$" in text else f"{text} - at `{path}`"
    return None


def _check_references(baseline: Baseline, where: str) -> None:
    for session_id, info in baseline.sessions.items():
        if session_id != info.id:
            _broken(where, f'holds the session "{info.id}" under another id, at $.sessions["{session_id}"]')
    for key, entry in baseline.entries.items():
        path = f'$.entries["{key}"]'
        if key != entry.benchmark.key:
            _broken(where, f'holds "{entry.benchmark.label}", whose key is "{entry.benchmark.key}", at {path}')
        if not entry.runs:
            _broken(where, f"has an entry without runs, at {path}.runs")
        _check_runs(entry.runs, path, where)
        unknown = {run.session for run in entry.runs} - baseline.sessions.keys()
        if unknown:
            _broken(where, f"refers to unknown sessions ({', '.join(sorted(unknown))}) at {path}.runs")


def _check_runs(runs: tuple[RunRecord, ...], path: str, where: str) -> None:
    for index, run in enumerate(runs):
        if run.trials < 1 or run.sd_us < 0:
            _broken(where, f"has an impossible run (trials {run.trials}, sd_us {run.sd_us}) at {path}.runs[{index}]")


def _broken(where: str, problem: str) -> None:
    raise BrokenFileError(where, problem, _REMEDY)
