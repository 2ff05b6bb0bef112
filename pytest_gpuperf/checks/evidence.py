"""What the checks look at: calls that were watched, each made once and only if a check asks for it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from typing import Any, TypeVar

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.budget import Budget, OutOfTimeError
from pytest_gpuperf.checks.dice import Dice, dice_of
from pytest_gpuperf.checks.held_state import changed_since
from pytest_gpuperf.checks.known_calls import Early, FirstCall, FreshCall, OtherStart, PoisonedCall, Timed, TracedCall
from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.checks.memory import POISON_BYTE, filling, is_made_of, reserve_memory, runs_compiled
from pytest_gpuperf.checks.provenance import Provenance
from pytest_gpuperf.checks.subject import SYNC, Inputs, Subject
from pytest_gpuperf.checks.waits import Waits, cuda_waits, reading_waits
from pytest_gpuperf.checks.watching import Watcher, dispatch_mode
from pytest_gpuperf.measure.origins import module_of
from pytest_gpuperf.measure.tensors import mapped

T = TypeVar("T")
LONGEST_EARLY_CALL_S = 0.05
SLOWER = 1.5
"""A call may take this much longer than those before it, and still be within the budget."""
PLAIN_CALLS = 5
CALLS_IN_A_ROW = 10
"""What one of them leaves behind, and any other works with, is found."""
CONFIRMING = 8
"""Calls on the same inputs after which an output of one random bit has given itself away."""
IN_MIXED_ORDER = tuple(bool(int(digit)) for digit in "00100001100111110101")
"""Whether a call is on the benchmark's own inputs: whatever it hands on for up to ten calls comes to light."""
QUICK_REFERENCE_S = 0.01
"""A reference whose first call took longer is called again, if there is time, to see what it takes by itself."""
LATE_S = 0.005
"""How long to wait for work that goes on after a call has returned."""


def _is_of_a_pool(thread: threading.Thread) -> bool:
    """Whether a thread waits for work in a pool, which starts threads as it needs them and keeps them."""
    return module_of(getattr(thread, "_target", None)) == "concurrent.futures.thread"


def once(gather: Callable[[Evidence], T]) -> functools.cached_property[T]:
    """Make a property that is gathered once, even if that fails: what fails once would fail again, and costs time."""

    @functools.wraps(gather)
    def gathered(evidence: Evidence) -> T:
        if (failure := evidence.failures.get(gather.__name__)) is not None:
            raise failure
        try:
            return gather(evidence)
        except Exception as error:
            evidence.failures[gather.__name__] = error
            raise

    return functools.cached_property(gathered)


class Evidence:
    """Gathers what the checks ask for, within the budget; raises `OutOfTimeError` for what does not fit."""

    def __init__(self, subject: Subject, torch: Any, watcher: Watcher, first: FirstCall, budget: Budget) -> None:
        self.subject = subject
        self.torch = torch
        self.watcher = watcher
        self.first = first
        self.early: Early | None = None
        self.timed: Timed | None = None
        self.call_s = 0.0
        """What a call is expected to take."""
        self.failures: dict[str, Exception] = {}
        """What kept something from being gathered, by its name."""
        self._budget = budget

    @property
    def on_gpu(self) -> bool:
        """Whether launches are those of a GPU."""
        return self.watcher.sees_kernels

    @functools.cached_property
    def has_tensors(self) -> bool:
        """Whether there is anything to look at; without it, nothing more is called."""
        if self.torch is None:
            return False
        return self.on_gpu or bool(self.named(*self.subject.inputs()) or self.outputs(self.first.output))

    @functools.cached_property
    def arguments(self) -> dict[str, Any]:
        """The tensor arguments of the benchmark's own calls, by name; none with `setup`, which makes new ones."""
        subject = self.subject
        has_none = self.torch is None or subject.setup is not None
        return {} if has_none else self.named(subject.args, subject.kwargs)

    @once
    def pair(self) -> tuple[Observed, Observed]:
        """Two more calls in a row on the benchmark's own inputs."""
        first, second = (self.watch(self.bound(*self.subject.inputs())) for _ in range(2))
        return first, second

    @property
    def repeated(self) -> Observed:
        """The second of them, which came after one like it, as the timed calls did."""
        return self.pair[1]

    def plain_us(self, until_us: float) -> float:
        """Return the shortest of some calls that nobody watches, outside of the timed region.

        The first that takes no more than `until_us` is the last: most callables are to be called once.
        """
        shortest_us = float("inf")
        for _ in range(PLAIN_CALLS):
            call = self.bound(*self.subject.inputs())
            self.reserve(1)
            start_ns = time.perf_counter_ns()
            call()
            shortest_us = min(shortest_us, (time.perf_counter_ns() - start_ns) / 1000.0)
            if shortest_us <= until_us:
                break
        return shortest_us

    @property
    def launches(self) -> tuple[Launch, ...] | None:
        """What a call launches on the GPU; None where two calls differ, or the profiler saw nothing."""
        if not self.on_gpu:
            return None
        first, second = self.pair
        return second.launches or None if first.names == second.names else None

    @once
    def poisoned(self) -> PoisonedCall:
        """A call on the benchmark's own inputs after memory of its outputs' sizes was freed full of poison."""
        like = self.outputs(self.repeated.output)
        self.reserve(2, LATE_S)
        self.reserve_bytes(4 * tensors.size_bytes(like))
        # What is poison now may be left from an earlier benchmark's poison.
        usual = self._call_on_memory_of(0, like)
        usual_poison = self._poison_in(usual)
        threads = set(threading.enumerate())
        output = self._call_on_memory_of(POISON_BYTE, like)
        at_return = tuple(tensor.detach().clone() for tensor in output)
        new = (thread for thread in threading.enumerate() if thread not in threads)
        left_running = tuple(thread.name for thread in new if not _is_of_a_pool(thread))
        time.sleep(LATE_S)
        self.watcher.synchronize()
        seen = zip(self._poison_in(output), usual_poison, self._unwritten_integers(usual, output), output, strict=False)
        return PoisonedCall(
            unwritten=tuple((max(integers, now - before), t.numel()) for now, before, integers, t in seen),
            is_late=not all(tensors.same_bits(*pair, self.torch) for pair in zip(at_return, output, strict=True)),
            left_running=left_running,
        )

    @once
    def traced(self) -> TracedCall | None:
        """Such a call; None where it cannot be followed: what is compiled for a GPU may be huge if it is not."""
        return self._trace()

    @once
    def has_memory(self) -> bool:
        """Whether the output depends on the calls before, as far as that can be told."""
        calls: list[TracedCall] = []
        changed = self._held_otherwise()
        for call in (self.traced, *repeat(None, CALLS_IN_A_ROW)):
            if (traced := call or self._trace()) is None:
                return False
            calls.append(traced)
            if any(one.remembers(calls) for one in calls):
                return True
            # What a call made is kept, but takes no time to handle.
            reserve_memory(tensors.size_bytes(traced.provenance.made.values()), self.subject.device, self.torch)
        # What is worked out now and then was not in these calls.
        changed |= self._held_otherwise()
        return any(call.works_with(changed) for call in calls)

    def _held_otherwise(self) -> set[tuple[str, int]]:
        return changed_since(self.first.held, self.subject, self.torch)

    def _trace(self) -> TracedCall | None:
        args, kwargs = self.subject.inputs()
        if self.on_gpu and runs_compiled(self.subject.fn, self.repeated.names):
            return None
        self.reserve(1, self.watcher.call_s)
        given = frozenset(tensors.storage_of(tensor) for _, tensor in tensors.tensors_in((args, kwargs), self.torch))
        provenance = Provenance(self.torch, given)
        with dispatch_mode(provenance.note):
            output = self.bound(args, kwargs)()
        return TracedCall(provenance=provenance, outputs=tuple(t for t in self.outputs(output) if t.numel()))

    @once
    def shows_unwritten_memory(self) -> bool:
        """Whether the output for fresh values does, which may not be of the kind that a function relies on."""
        like = self.outputs(self.fresh.observed.output)
        self.reserve(2)
        one, other = (
            self.samples(self._call_on_memory_of(byte, like, self.copies_of_fresh())) for byte in (0, POISON_BYTE)
        )
        return not tensors.same_samples(one, other, self.torch)

    def _call_on_memory_of(self, byte: int, like: tuple[Any, ...], inputs: Inputs | None = None) -> tuple[Any, ...]:
        """Call on inputs, by default the benchmark's own, unwritten memory showing one byte; return output tensors."""
        call = self.bound(*(inputs or self.subject.inputs()))
        # On a CPU all watching is done under a dispatch mode, so that nothing changes.
        compiled = self.on_gpu and runs_compiled(self.subject.fn, self.repeated.names)
        with filling(byte, like, self.torch, on_gpu=self.on_gpu, in_dispatcher=not compiled):
            return self.outputs(call())

    def _unwritten_integers(self, on_zeros: tuple[Any, ...], on_poison: tuple[Any, ...]) -> list[int]:
        """Count in each output of integers what shows zero on zeros and poison on poison, twice over.

        Any integer is a fair result, so that one call proves nothing, and two nothing if results are random.
        """
        once = self._showing_both(on_zeros, on_poison)
        if not any(bool(shown.any()) for shown in once if shown is not None):
            return [0] * len(once)
        self.reserve(2)
        again = self._showing_both(*(self._call_on_memory_of(byte, on_poison) for byte in (0, POISON_BYTE)))
        pairs = zip(once, again, strict=False)
        return [0 if a is None or b is None or not self.torch.equal(a, b) else int(a.sum()) for a, b in pairs]

    def _showing_both(self, on_zeros: tuple[Any, ...], on_poison: tuple[Any, ...]) -> list[Any]:
        torch = self.torch
        return [
            None
            if tensors.is_floating(now) or now.shape != before.shape
            else is_made_of(0, before, torch) & is_made_of(POISON_BYTE, now, torch)
            for before, now in zip(on_zeros, on_poison, strict=False)
        ]

    @once
    def written_at_first(self) -> tuple[str, ...]:
        """The names of the benchmark's own arguments that were not the same before the first call."""
        return tuple(name for name, total in self.sums().items() if self.first.sums.get(name, total) != total)

    @once
    def fresh(self) -> FreshCall:
        """A call on fresh values in fresh buffers, the benchmark's own being kept alive."""
        # Where an output's own values would do, as twice those of `x` do for `x * 2`, nobody would see it written.
        outputs = {id(self.arguments[name]) for name in self.written_at_first}
        fresh, other = (self.refilled(scale) for scale in (tensors.FRESH_SCALE, tensors.ALONE_SCALE))
        args, kwargs = self.inputs(change=lambda tensor: (other if id(tensor) in outputs else fresh)(tensor))
        given = self.named(args, kwargs)
        before = {name: tensors.copy_of(tensor, self.torch) for name, tensor in given.items()}
        # What hands out the result of the call before is to hand out that of the benchmark's own inputs.
        self.reserve(1)
        self.bound(*self.subject.inputs())()
        observed = self.watch(self.bound(args, kwargs))
        changed = tuple(name for name, t in given.items() if not tensors.same_bits(t, before[name], self.torch))
        return FreshCall(args=args, kwargs=kwargs, before=before, after=given, changed=changed, observed=observed)

    @once
    def unwatched(self) -> Observed:
        """A call on the benchmark's own inputs that nothing watches, as the verified one and the timed ones."""
        return self.call_unwatched(*self.subject.inputs())

    @once
    def depends_on_the_order(self) -> bool:
        """Whether calls on the same inputs differ if others on new inputs come between them."""
        self.reserve(len(IN_MIXED_ORDER))
        own, new = self.subject.inputs(), self.copies_of_fresh()
        seen: dict[bool, Observed] = {}
        for is_own in IN_MIXED_ORDER:
            now = self.call_unwatched(*(own if is_own else new))
            if not tensors.same_samples(seen.setdefault(is_own, now).samples, now.samples, self.torch):
                return True
        return False

    @once
    def is_random(self) -> bool:
        """Whether a call draws random numbers, and others than the call before."""
        before, after = (self._dice_after_a_call() for _ in range(2))
        return before.differ_from(after)

    def _dice_after_a_call(self) -> Dice:
        """Return the dice as a call on the benchmark's own inputs leaves them."""
        self.call_unwatched(*self.subject.inputs())
        return self.dice()

    @once
    def unwatched_alike(self) -> Observed:
        """The same with the random numbers of the verified call."""
        with self.first.dice.as_they_were():
            return self.call_unwatched(*self.subject.inputs())

    @once
    def is_settled(self) -> bool:
        """Whether calls on the benchmark's own inputs give the same over and over: chance changes few elements too."""
        self.reserve(CONFIRMING)
        usual, torch = self.unwatched.samples, self.torch
        calls = (self.call_unwatched(*self.subject.inputs()).samples for _ in range(CONFIRMING))
        return all(tensors.same_samples(usual, samples, torch) for samples in calls)

    @once
    def fresh_unwatched(self) -> Observed:
        """The same on copies of the fresh call's inputs."""
        return self.call_unwatched(*self.copies_of_fresh())

    def call_unwatched(self, args: Any, kwargs: Mapping[str, Any]) -> Observed:
        """Make a call that nothing watches, wait for it, and take its samples."""
        self.reserve(1)
        output = self.bound(args, kwargs)()
        self.watcher.synchronize()
        samples, written = self.samples(output), self.written(args, kwargs)
        return Observed(output=None, launches=(), samples=samples, written=written)

    @once
    def fresh_again(self) -> Observed:
        """The same call once more, on the same buffers."""
        return self.watch(self.bound(self.fresh.args, self.fresh.kwargs))

    @once
    def reference_s(self) -> float:
        """What a call of the reference takes, without what the first one had to compile or to load."""
        reference, first_s = self.subject.reference, self.first.reference_s
        if reference is None or first_s is None:
            return float("inf")
        if first_s <= QUICK_REFERENCE_S:
            return first_s
        try:
            self.reserve(0, first_s)
        except OutOfTimeError:
            return first_s
        args, kwargs = self.inputs(change=lambda tensor: tensors.copy_of(tensor, self.torch))
        self.watcher.synchronize()
        start_s = time.perf_counter()
        reference(*args, **kwargs)
        self.watcher.synchronize()
        return time.perf_counter() - start_s

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the arguments that a call writes to."""
        return self.fresh.changed

    @once
    def rewritten(self) -> tuple[str, ...]:
        """The names of those of which a call also reads what it writes to; the others are its outputs."""
        if self.subject.setup is not None:  # the same inputs cannot be given twice
            return self.changed
        return tuple(name for name in self.changed if self._is_read(name))

    def _is_read(self, name: str) -> bool:
        """Whether what a call returns beside a changed argument, or leaves in it, depends on what was in it."""
        fresh = self.fresh
        one, other = (self.call_with_other_start(name) for _ in range(2))
        left_alike = tensors.same_bits(one.after, other.after, self.torch)
        if not (left_alike and tensors.same_samples(one.samples, other.samples, self.torch)):
            return False  # random, so that nothing follows from a difference
        if not tensors.same_samples(one.samples, self._samples_beside(fresh.after[name], fresh.observed), self.torch):
            return True
        pairs = (fresh.before[name], fresh.after[name]), (one.before, one.after)
        return tensors.depends_on_its_past(*pairs, self.torch)

    def call_with_other_start(self, name: str) -> OtherStart:
        """Make the fresh call on copies of its inputs, one argument holding something else."""
        torch, before = self.torch, self.fresh.before
        args, kwargs = self.copies_of_fresh()
        target = self.named(args, kwargs)[name]
        with torch.no_grad():
            # Integers may be indices, of which zero is valid whatever it indexes.
            start = before[name] * tensors.ALONE_SCALE if tensors.is_floating(target) else torch.zeros_like(target)
            tensors.overwrite(target, start)
        given = tensors.copy_of(target, torch)
        observed = self.watch(self.bound(args, kwargs))
        return OtherStart(given, target, self._samples_beside(target, observed))

    def _samples_beside(self, argument: Any, observed: Observed) -> tuple[Any, ...]:
        """Return the samples of those outputs that are not in the memory of an argument."""
        floating = (tensor for tensor in self.outputs(observed.output) if tensors.is_floating(tensor))
        memory = tensors.storage_of(argument)
        pairs = zip(floating, observed.samples, strict=True)
        return tuple(sample for tensor, sample in pairs if tensors.storage_of(tensor) != memory)

    def copies_of_fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the inputs of the fresh call as they were before it, in buffers of their own; not with `setup`."""
        before = {id(tensor): self.fresh.before.get(name, tensor) for name, tensor in self.arguments.items()}
        return self.inputs(change=lambda tensor: tensors.copy_of(before.get(id(tensor), tensor), self.torch))

    @once
    def waits(self) -> Waits:
        """What makes the host wait within one call; on a CPU only if asked for, since nothing is hidden there."""
        if not self.on_gpu and SYNC not in self.subject.extra_checks:
            return Waits()
        call = self.bound(*self.subject.inputs())
        self.reserve(1)
        return (cuda_waits if self.on_gpu else reading_waits)(self.torch, call)

    def take_early(self) -> None:
        """Make the calls before the timed region; leave long ones to the checks after it."""
        sums = self.sums()
        dice = self.dice()
        first = self._call_on_early_values()
        if self.call_s > LONGEST_EARLY_CALL_S:
            return
        again = self._call_on_early_values()
        # The outputs themselves would be in the way of what is measured.
        first, again = (replace(observed, output=None) for observed in (first, again))
        self.early = Early(observed=first, again=again, sums=sums, dice=dice)

    @once
    def revisited(self) -> Observed:
        """A call on the values of the early calls, after the timed region."""
        return self._call_on_early_values()

    @once
    def revisited_alike(self) -> Observed:
        """The same with the random numbers of the first early call."""
        with self.early.dice.as_they_were() if self.early is not None else nullcontext():
            return self._call_on_early_values()

    def _call_on_early_values(self) -> Observed:
        return self.watch(self.bound(*self.inputs(change=self.refilled(tensors.EARLY_SCALE))))

    def watch(self, call: functools.partial[Any]) -> Observed:
        """Make a call under the watcher."""
        self.reserve(1, self.watcher.call_s)
        start_s = time.perf_counter()
        observed = self.watcher.watch(call)
        self.call_s = max(self.call_s, time.perf_counter() - start_s - self.watcher.call_s)
        return replace(
            observed,
            samples=self.samples(observed.output),
            written=self.written(call.args, call.keywords),
            memory=self.memory(observed.output),
        )

    def bound(self, args: Any, kwargs: Mapping[str, Any]) -> functools.partial[Any]:
        """Return the callable with these inputs."""
        return functools.partial(self.subject.fn, *args, **kwargs)

    def inputs(self, change: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return inputs in which each tensor is what `change` makes of it; the same tensor is changed once."""
        args, kwargs = self.subject.inputs()
        self.reserve_bytes(4 * tensors.size_bytes(self.named(args, kwargs).values()))
        made: dict[int, Any] = {}

        def changed(tensor: Any) -> Any:
            if id(tensor) not in made:
                made[id(tensor)] = change(tensor)
            return made[id(tensor)]

        rebuilt = functools.partial(mapped, change=changed, torch=self.torch, most_items=tensors.MOST_ITEMS)
        return rebuilt(tuple(args)), rebuilt(dict(kwargs))

    def refilled(self, scale: float) -> Callable[[Any], Any]:
        """Return what copies a tensor and gives the copy fresh values, others for each scale."""

        def change(tensor: Any) -> Any:
            copied = tensors.copy_of(tensor, self.torch)
            tensors.refill(copied, self.torch, scale)
            return copied

        return change

    def named(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors among inputs by name."""
        return tensors.arguments_in(args, kwargs, self.torch)

    def outputs(self, output: Any) -> tuple[Any, ...]:
        """Return the tensors of an output."""
        return () if self.torch is None else tuple(tensor for _, tensor in tensors.tensors_in(output, self.torch))

    def samples(self, output: Any) -> tuple[Any, ...]:
        """Return a sample of each floating tensor of an output."""
        return tuple(tensors.sample(t, self.torch) for t in self.outputs(output) if tensors.is_floating(t))

    def written(self, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a sample of each floating argument of a kind that the first call wrote to."""
        given = self.named(args, kwargs) if self.written_at_first else {}
        return self.samples([given[name] for name in self.written_at_first if name in given])

    def memory(self, output: Any) -> tuple[tuple[str, int], ...]:
        """Return where the tensors of an output are, empty ones left out."""
        return tuple(tensors.storage_of(tensor) for tensor in self.outputs(output) if tensor.numel())

    def _poison_in(self, outputs: tuple[Any, ...]) -> list[int]:
        poison = (is_made_of(POISON_BYTE, t, self.torch).sum() if tensors.is_floating(t) else 0 for t in outputs)
        return [int(count) for count in poison]

    def dice(self) -> Dice:
        """Return what random numbers are drawn from, as it is now."""
        return dice_of(self.subject, self.torch)

    def sums(self) -> dict[str, int]:
        """Return checksums of the benchmark's own tensor arguments."""
        self.reserve_bytes(tensors.size_bytes(self.arguments.values()))
        return {name: tensors.checksum(tensor, self.torch) for name, tensor in self.arguments.items()}

    def reserve(self, calls: int, more_s: float = 0.0) -> None:
        """Make sure that there is time for so many calls and something more."""
        self._budget.reserve(calls * SLOWER * self.call_s + more_s)

    def reserve_bytes(self, count_bytes: int) -> None:
        """Make sure that there is memory and time for handling so many bytes."""
        self._budget.reserve(reserve_memory(count_bytes, self.subject.device, self.torch))
