"""What can keep a benchmark from being measured. Each error is one message that a person can act on."""

from __future__ import annotations


class MeasureError(Exception):
    """A benchmark could not be measured; the message says why and what to do."""


class DeviceUnavailableError(MeasureError):
    """The device asked for is unknown, absent or not usable."""


class TimerUnavailableError(MeasureError):
    """The timer asked for does not exist on the measured device."""


class GraphUnavailableError(MeasureError):
    """The callable cannot be timed in a CUDA graph."""

    def __init__(self, why: str) -> None:
        super().__init__(f"timer `graph` cannot time this call: {why}. Use timer=events (--gpuperf-timer=events)")
        self.why = why


class NoGpuWorkError(MeasureError):
    """The callable launched nothing on the GPU."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"no GPU work recorded on {device}: the callable launched no kernel, copy or memset there. "
            "Are its inputs on the measured device (`device=gpubench.device`)? "
            "To time it on the CPU, use --gpuperf-device=cpu"
        )


class InterpreterTimedError(MeasureError):
    """The callable ran a Triton kernel in Triton's interpreter."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"Triton kernel `{kernel}` runs in Triton's interpreter, whose speed says nothing about the kernel's: "
            "it is never timed. Unset TRITON_INTERPRET, or run the test without measuring"
        )


class StickyDeviceError(MeasureError):
    """An earlier failure left the device unusable for the rest of this process."""

    def __init__(self, device: str, culprit: str, error: str) -> None:
        super().__init__(
            f"{device} is in an error state since {culprit} ({error}); "
            "nothing more can be measured in this process. Mend or deselect that test first"
        )


class DeviceHangsError(StickyDeviceError):
    """The device does not come to an end with what a callable gave it."""

    def __init__(self, device: str, culprit: str, seconds: float) -> None:
        MeasureError.__init__(
            self,
            f"{device} was not done with the work of {culprit} after {seconds:g} s (--gpuperf-hang-timeout): a kernel "
            "that does not end can only be ended with its process, so that the session stops here. "
            "Mend or deselect that test, or allow it more time",
        )


class StreamChangedError(MeasureError):
    """The callable returned with another current stream or device than it was called with."""

    def __init__(self, what: str, before: object, after: object) -> None:
        super().__init__(
            f"the callable changed the current {what} from {before} to {after} and did not restore it, so that the "
            f"events around it saw other work (it has been restored). Change the {what} in a `with` block"
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message with its type, for a message that quotes it."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
