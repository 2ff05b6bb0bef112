"""The file of `--gpuperf-json`: the session's record in the stored schema, raw trials included.

One object: `format` and `schema` (see `store.schema`), `info` (session and machine), `settings`, `accounting` (the
counts of the summary line), and `outcomes`, each with its benchmark, identity, decision, `runs` and `trials`.
"""

from __future__ import annotations

from pytest_gpuperf.store.codec import encode_session
from pytest_gpuperf.store.schema import SessionRecord


def session_json(record: SessionRecord, where: str = "--gpuperf-json") -> str:
    """Render a session as strict JSON. Raises UnstorableValueError, naming `where`, for NaN or infinity."""
    return encode_session(record, where).decode("utf-8")
