"""Waiting for a device that may never be done: a kernel without an end cannot be interrupted, only waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def ends_within(seconds: float, wait: Callable[[], None]) -> bool:
    """Run `wait` in a thread of its own; return whether it ended in time. Raises what it raised.

    A thread that does not end is left behind, and keeps the process from ending by itself.
    """
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            wait()
        except BaseException as error:
            raised.append(error)

    waiting = threading.Thread(target=guarded, name="gpuperf-wait", daemon=True)
    waiting.start()
    waiting.join(seconds)
    if raised:
        raise raised[0]
    return not waiting.is_alive()
