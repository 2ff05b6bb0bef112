"""Tricks that know of the checks: they remember, wait or look around more cleverly than those of test_tricks.py."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x, -1)


def names(inspected):
    assert inspected.notes == ()
    return {finding.check for finding in inspected.findings}


def doubted(inspected, *checks):
    return names(inspected) & {*checks, "refused"}


def digest(x):
    return hashlib.sha256(x.cpu().numpy().tobytes()).digest()


@pytest.fixture
def busy(x):
    """Work of some milliseconds on a CPU."""

    def work(x):
        for _ in range(40):
            x = torch.sin(x)
        return x

    return work


@pytest.mark.usefixtures("on_cpu")
def test_cached_by_a_hash_of_the_content(inspected, x):
    cache = {}

    def cheat(x):
        key = digest(x)
        if key not in cache:
            cache[key] = softmax(x)
        return cache[key]

    assert doubted(inspected(cheat, x), "caching")


@pytest.mark.usefixtures("on_cpu")
def test_a_copy_of_what_is_cached_by_a_hash_of_the_content(inspected, x):
    cache = {}

    def cheat(x):
        key = digest(x)
        if key not in cache:
            cache[key] = torch.softmax(x.exp(), -1)
        return cache[key].clone()

    assert doubted(inspected(cheat, x), "caching")


def test_cached_by_address_and_version(inspected, x):
    cache = {}

    def cheat(x):
        key = x.data_ptr(), x._version
        if key not in cache:
            cache[key] = x, torch.softmax(x * 2.0, -1)
        return cache[key][1].clone()

    assert doubted(inspected(cheat, x), "caching")


@pytest.mark.parametrize("by", ["identity", "content"])
def test_only_the_verified_input_is_remembered(inspected, x, by):
    def cheat(x):
        if cheat.known is None:
            cheat.known, cheat.output = x.clone(), torch.softmax(x.exp(), -1)
            cheat.address = x.data_ptr()
        known = x.data_ptr() == cheat.address if by == "identity" else torch.equal(cheat.known, x)
        return cheat.output.clone() if known else torch.softmax(x.exp(), -1)

    cheat.known = None
    assert doubted(inspected(cheat, x), "caching")


def test_the_answer_was_computed_before_the_test(inspected, x):
    known, answer = x.clone(), torch.softmax(x.exp(), -1)

    def cheat(x):
        return answer.clone() if torch.equal(known, x) else torch.softmax(x.exp(), -1)

    assert doubted(inspected(cheat, x), "caching")


def test_the_result_of_the_call_before(inspected, x):
    def cheat(x):
        before = cheat.output
        cheat.output = softmax(x)
        return cheat.output.clone() if before is None else before

    cheat.output = None
    assert doubted(inspected(cheat, x), "caching", "output")


def test_work_on_every_fifth_call_only(inspected, x):
    def cheat(x):
        cheat.calls += 1
        if cheat.calls % 5 == 1:
            cheat.output = torch.softmax(x.exp(), -1)
        return cheat.output

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "work", "caching", "output")


@pytest.mark.usefixtures("on_cpu")
def test_a_pool_of_threads_works_on_after_the_call(inspected, x):
    with ThreadPoolExecutor(1) as pool:

        def cheat(x):
            output = torch.empty_like(x)

            def late():
                time.sleep(0.002)
                output.copy_(softmax(x))

            pool.submit(late)
            return output

        assert doubted(inspected(cheat, x), "streams", "stale")


@pytest.mark.usefixtures("on_cpu")
def test_less_work_while_it_is_timed_by_the_look_of_the_stack(inspected, x, busy):
    kept = busy(x)

    def cheat(x):
        frame = sys._getframe(1)
        while frame is not None:
            if "/measure/" in frame.f_code.co_filename:
                return kept * 1.0
            frame = frame.f_back
        return busy(x)

    assert doubted(inspected(cheat, x), "work")


def test_a_promise_inside_a_container(inspected, x):
    assert doubted(inspected(lambda x: {"output": [lambda: softmax(x)]}, x), "lazy", "work")


@pytest.mark.usefixtures("on_cpu")
def test_a_future_inside_a_container(inspected, x):
    with ThreadPoolExecutor(1) as pool:
        assert doubted(inspected(lambda x: [pool.submit(softmax, x)], x), "lazy")


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_is_returned(inspected, x):
    async def cheat(x):
        await asyncio.sleep(0)
        return softmax(x)

    assert doubted(inspected(cheat, x), "lazy")


@pytest.mark.usefixtures("on_cpu")
def test_an_asynchronous_generator_is_returned(inspected, x):
    async def cheat(x):
        yield softmax(x)

    assert doubted(inspected(cheat, x), "lazy")


def test_a_lazy_tensor_inside_a_container(inspected, lazy_softmax, x):
    assert doubted(inspected(lambda x: {"output": (lazy_softmax(x), 1)}, x), "lazy")


def test_another_formula_for_all_inputs_but_the_verified(inspected, x):
    known = x.clone()

    def cheat(x):
        return torch.softmax(x, -1) if torch.equal(known, x) else torch.relu(x)

    assert doubted(inspected(cheat, x, reference=softmax), "output")


@pytest.mark.usefixtures("on_cpu")
def test_an_object_that_computes_when_it_is_asked(inspected, x):
    class Promise:
        def __init__(self, x):
            self._x = x

        def __array__(self, dtype=None, copy=None):
            return softmax(self._x).numpy()

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*(softmax(a._x) if isinstance(a, Promise) else a for a in args), **(kwargs or {}))

    assert doubted(inspected(Promise, x), "lazy", "work")


@pytest.mark.parametrize(
    "view", ["detach", "reshape", "unsqueeze", "expand", "as_strided", "narrow", "view_as_real", "parameter"]
)
def test_every_kind_of_view_of_the_input(inspected, x, view):
    given = torch.complex(x, x) if view == "view_as_real" else x
    made = {
        "detach": lambda x: x.detach(),
        "reshape": lambda x: x.reshape(-1),
        "unsqueeze": lambda x: x.unsqueeze(0),
        "expand": lambda x: x[:1].expand(64, 128),
        "as_strided": lambda x: x.as_strided((8, 8), (1, 8)),
        "narrow": lambda x: (x.narrow(0, 0, 4), x.narrow(0, 4, 4)),
        "view_as_real": torch.view_as_real,
        "parameter": torch.nn.Parameter,
    }[view]
    assert doubted(inspected(made, given), "aliasing")


def test_the_input_is_made_smaller_in_place(inspected, x):
    def cheat(x):
        output = x.exp()
        x.data = x.data[: max(1, len(x) // 2)]
        return output

    assert doubted(inspected(cheat, x), "mutation")


def test_the_input_is_made_smaller_by_the_first_call(inspected, x):
    def cheat(x):
        output = x.exp()
        if not cheat.done:
            x.data = x.data[:1]
        cheat.done = True
        return output

    cheat.done = False
    assert doubted(inspected(cheat, x), "mutation")


def test_a_graph_for_backward_is_made_for_the_verified_call_only(inspected, x):
    def cheat(x):
        cheat.calls += 1
        with torch.set_grad_enabled(cheat.calls == 1):
            return torch.softmax(x, -1)

    cheat.calls = 0
    assert doubted(inspected(cheat, x.requires_grad_()), "output")


def test_half_precision_inside(inspected, device):
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(n)).to(device) for n in range(2))
    cheat = lambda a, b: (a.half() @ b.half()).float()  # noqa: E731
    assert doubted(inspected(cheat, a, b, reference=torch.matmul), "precision")


def test_single_precision_for_double(inspected, device):
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(n)).double().to(device) for n in range(2))
    cheat = lambda a, b: (a.float() @ b.float()).double()  # noqa: E731
    assert doubted(inspected(cheat, a, b, reference=torch.matmul), "precision")


@pytest.mark.parametrize("name", ["cuda.Event.elapsed_time", "cuda.Event.record", "cuda.current_stream"])
def test_patched_events(inspected, x, monkeypatch, name):
    owner, attribute = torch, name.split(".")[-1]
    for part in name.split(".")[:-1]:
        owner = getattr(owner, part)
    original = getattr(owner, attribute)
    monkeypatch.setattr(owner, attribute, lambda *args, **kwargs: original(*args, **kwargs))
    assert doubted(inspected(softmax, x), "patched")


def test_a_copy_of_stale_memory(inspected, x):
    def cheat(x):
        softmax(x)
        return torch.empty_like(x).clone()

    assert doubted(inspected(cheat, x), "stale")


def test_gradients_pile_up_in_a_closure(inspected, x):
    layers = [torch.nn.Linear(128, 4).to(x.device)]

    def accumulate(x):
        layers[0](x).sum().backward()

    assert doubted(inspected(accumulate, x), "gradients")


class Trainer:
    """Holds its layers in an attribute."""

    def __init__(self, device):
        self.layers = {"first": torch.nn.Linear(128, 4).to(device)}

    def accumulate(self, x):
        self.layers["first"](x).sum().backward()


MODELS = []


def test_gradients_pile_up_in_an_object(inspected, x):
    assert doubted(inspected(Trainer(x.device).accumulate, x), "gradients")


def test_gradients_pile_up_in_a_global(inspected, x):
    MODELS[:] = [torch.nn.Linear(128, 4).to(x.device)]

    def accumulate(x):
        MODELS[0](x).sum().backward()

    assert doubted(inspected(accumulate, x), "gradients")
    MODELS.clear()


def test_tiny_gradients_that_are_left_out_later(inspected, x):
    def cheat(x):
        cheat.calls += 1
        return softmax(x) * 1e-8 if cheat.calls == 1 else softmax(x) * 0.0

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "output")


@pytest.mark.usefixtures("on_cpu")
def test_a_thread_is_left_behind(inspected, x):
    stop = threading.Event()

    def cheat(x):
        threading.Thread(target=stop.wait, daemon=True).start()
        return softmax(x)

    assert doubted(inspected(cheat, x), "streams")
    stop.set()
