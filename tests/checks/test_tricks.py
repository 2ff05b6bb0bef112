"""The gallery of tricks that benchmarks get fooled with: each is caught and named.

On a GPU, a callable that launches nothing is refused before any check can look.
"""

from __future__ import annotations

import functools
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


def test_cached_by_identity(inspected, x):
    cache = {}

    def cheat(x):
        if id(x) not in cache:
            cache[id(x)] = x, softmax(x)
        return cache[id(x)][1]

    assert doubted(inspected(cheat, x), "caching")


def test_cached_by_address(inspected, x):
    cache = {}

    def cheat(x):
        if x.data_ptr() not in cache:
            cache[x.data_ptr()] = softmax(x)
        return cache[x.data_ptr()]

    assert doubted(inspected(cheat, x), "caching")


def test_cached_by_content(inspected, x):
    cache = {}

    def cheat(x):
        key = x.sum().item()
        if key not in cache:
            cache[key] = torch.softmax(x * 2.0, -1)
        return cache[key].clone()

    assert doubted(inspected(cheat, x), "caching")


def test_cached_by_address_behind_a_decoy(inspected, x):
    cache = {}

    def cheat(x):
        torch.softmax(x * 2.0, -1)  # the decoy does as much as the real thing
        if x.data_ptr() not in cache:
            cache[x.data_ptr()] = torch.softmax(x, -1)
        return cache[x.data_ptr()].clone()

    assert doubted(inspected(cheat, x), "caching")


def test_cached_by_shape(inspected, x):
    cache = {}

    def cheat(x):
        if x.shape not in cache:
            cache[x.shape] = softmax(x)
        return cache[x.shape]

    assert doubted(inspected(cheat, x), "work", "caching", "output")


def test_cached_by_shape_with_a_reference(inspected, x):
    cache = {}

    def cheat(x):
        torch.softmax(x, -1)
        if x.shape not in cache:
            cache[x.shape] = softmax(x)
        return cache[x.shape]

    assert doubted(inspected(cheat, x, reference=softmax), "output")


@pytest.mark.usefixtures("on_cpu")
def test_cached_by_shape_as_a_copy(inspected, x):
    cache = {}

    def cheat(x):
        if x.shape not in cache:
            cache[x.shape] = softmax(x)
        return cache[x.shape].clone()

    assert doubted(inspected(cheat, x), "caching")


def test_the_last_result_is_kept(inspected, x):
    def cheat(x):
        if cheat.last is None or not torch.equal(cheat.last, x):
            cheat.last, cheat.output = x.clone(), torch.softmax(x.exp(), -1)
        return cheat.output

    cheat.last = None
    assert doubted(inspected(cheat, x), "caching")


@pytest.mark.parametrize("honest_calls", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("then", ["kept", "copied", "zeros", "half", "roughly"])
def test_honest_only_at_first(inspected, x, honest_calls, then):
    def cheat(x):
        cheat.calls += 1
        if cheat.calls <= honest_calls:
            cheat.output = torch.softmax(x.exp(), -1)
            return cheat.output
        return {
            "kept": lambda: cheat.output,
            "copied": lambda: cheat.output.clone(),
            "zeros": lambda: torch.zeros_like(x),
            "half": lambda: torch.softmax(x[:32].exp(), -1),
            "roughly": lambda: torch.softmax(x, -1),
        }[then]()

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "work", "caching", "output")


def test_input_is_read_and_then_zeroed(inspected, x):
    assert doubted(inspected(lambda x: (x.exp(), x.zero_())[0], x), "mutation")


def test_wrapped_in_functools_cache(inspected):
    cached = functools.lru_cache(lambda n: sum(range(n)))
    assert doubted(inspected(cached, 1000), "caching")


def test_output_is_the_input(inspected, x):
    assert doubted(inspected(lambda x: x, x), "aliasing")


def test_output_is_a_view_of_the_input(inspected, x):
    assert doubted(inspected(lambda x: x.t()[1:], x), "aliasing")


def test_output_is_the_references(inspected, x):
    made = []

    def reference(x):
        made.append(softmax(x))
        return made[-1]

    def cheat(x):
        softmax(x)
        return made[0]

    assert doubted(inspected(cheat, x, reference=reference), "aliasing")


def test_output_is_stale_memory(inspected, x):
    assert doubted(inspected(lambda x: torch.empty_like(softmax(x)), x), "stale")


def test_output_is_half_written(inspected, x):
    def cheat(x):
        output = torch.empty(4 * x.numel(), device=x.device)
        output[: x.numel()] = x.reshape(-1) * 2
        return output

    assert doubted(inspected(cheat, x), "stale")


def test_a_large_output_misses_its_last_element(inspected, x):
    def cheat(x):
        output = torch.empty(1 << 20, device=x.device)
        output[:-1] = x[0, 0]
        return output

    assert doubted(inspected(cheat, x), "stale")


def test_input_is_sorted_in_place(inspected, x):
    def cheat(x):
        values, _ = torch.sort(x, -1)
        x.copy_(values)
        return values

    assert doubted(inspected(cheat, x), "mutation")


def test_input_is_zeroed_by_the_first_call(inspected, x):
    def cheat(x):
        result = x.exp()
        if not cheat.done:
            x.zero_()
        cheat.done = True
        return result

    cheat.done = False
    assert doubted(inspected(cheat, x), "mutation")


def test_constant_inputs(inspected, device):
    assert names(inspected(softmax, torch.zeros(64, 64, device=device))) == {"constant"}


@pytest.mark.usefixtures("on_cpu")
def test_patched_clock(inspected, x, monkeypatch):
    original = time.perf_counter_ns
    monkeypatch.setattr(time, "perf_counter_ns", lambda: original() // 10)
    assert doubted(inspected(softmax, x), "patched")


def test_patched_clock_in_the_call(inspected, x, monkeypatch):
    original = time.perf_counter

    def cheat(x):
        monkeypatch.setattr(time, "perf_counter", lambda: original())
        return softmax(x)

    assert doubted(inspected(cheat, x), "patched")


@pytest.mark.parametrize(
    "name", ["allclose", "testing.assert_close", "cuda.synchronize", "Tensor.__eq__", "Tensor.cpu"]
)
def test_patched_torch(inspected, x, monkeypatch, name):
    owner, _, attribute = name.rpartition(".")
    target = functools.reduce(getattr, filter(None, owner.split(".")), torch)
    original = getattr(target, attribute)
    monkeypatch.setattr(target, attribute, lambda *args, **kwargs: original(*args, **kwargs))
    found = inspected(softmax, x).findings
    assert [f.check for f in found] == ["patched"]
    assert name in found[0].seen


def test_no_work_at_all(inspected, x):
    assert doubted(inspected(lambda x: None, x), "work")


def test_no_work_but_an_output(inspected, x):
    kept = softmax(x)
    assert doubted(inspected(lambda x: kept, x), "work")


def test_work_shrinks_after_the_first_calls(inspected, x):
    def cheat(x):
        cheat.calls += 1
        if cheat.calls <= 3:
            cheat.kept = torch.softmax(torch.exp(x) @ x.t(), -1)
        return cheat.kept * 1.0

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "work", "output", "caching")


def test_half_of_the_work_after_the_first_calls(inspected, x):
    output = torch.zeros_like(x)

    def cheat(x):
        cheat.calls += 1
        part = slice(None) if cheat.calls <= 3 else slice(0, 8)
        output[part] = torch.softmax(x[part], -1)
        return output.clone()

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "work", "output")


def test_garbage_after_the_first_calls(inspected, x):
    def cheat(x):
        cheat.calls += 1
        return torch.softmax(x, -1) if cheat.calls <= 3 else torch.softmax(x * 0, -1)

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "output")


def test_right_for_the_verified_input_only(inspected, x):
    def cheat(x):
        return torch.softmax(x, -1) if cheat.first else torch.relu(x)

    cheat.first = True

    def reference(x):
        return softmax(x)

    def wrapped(x):
        result = cheat(x)
        cheat.first = False
        return result

    assert doubted(inspected(wrapped, x, reference=reference), "output")


@pytest.mark.usefixtures("on_cpu")
def test_a_thread_does_the_work(inspected, x):
    threads = []

    def cheat(x):
        output = torch.empty(4096)

        def late():
            time.sleep(0.02)
            output.copy_(torch.sort(x.reshape(-1)[:4096]).values)

        threads.append(threading.Thread(target=late))
        threads[-1].start()
        return output

    assert doubted(inspected(cheat, x), "streams")
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("on_cpu")
def test_a_future_is_returned(inspected, x):
    with ThreadPoolExecutor(1) as pool:
        assert doubted(inspected(lambda x: pool.submit(softmax, x), x), "lazy")


@pytest.mark.usefixtures("on_cpu")
def test_a_generator_is_returned(inspected):
    assert names(inspected(lambda n: (i * i for i in range(n)), 1000)) == {"lazy"}


def test_a_lazy_tensor_is_returned(inspected, lazy_softmax, x):
    assert doubted(inspected(lazy_softmax, x), "lazy")


@pytest.mark.usefixtures("on_cpu")
def test_a_meta_tensor_is_returned(inspected, x):
    assert doubted(inspected(lambda x: softmax(x.to("meta")), x), "lazy")


def test_precision_is_lowered(inspected, device):
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(n)).to(device) for n in range(2))

    def cheat(a, b):
        return (a.bfloat16() @ b.bfloat16()).float()

    found = inspected(cheat, a, b, reference=torch.matmul)
    assert names(found) == {"precision"}
    assert "float32" in found.findings[0].seen


def test_gradients_pile_up(inspected, device):
    w = torch.randn(64, 64, device=device, requires_grad=True)

    def accumulate(w):
        (w * w).sum().backward()

    assert names(inspected(accumulate, w)) == {"gradients"}


def test_gradients_of_a_module_pile_up(inspected, x):
    layer = torch.nn.Linear(128, 4).to(x.device)

    def accumulate(x):
        layer(x).sum().backward()

    assert names(inspected(accumulate, x)) == {"gradients"}


@pytest.mark.usefixtures("on_cpu")
def test_what_would_wait_on_a_gpu_is_named_if_asked(inspected, x):
    def chatty(x):
        total = softmax(x).sum()
        if total > 0:
            total.item()
        return helper(total)

    def helper(total):
        return total.tolist()

    found = inspected(chatty, x, extra_checks=("sync",)).findings
    assert {f.check for f in found} == {"sync"}
    text = "\n".join(f.seen for f in found)
    for line in ("if total > 0:", "total.item()", "return total.tolist()"):
        assert line in text
    assert "test_tricks.py" in text
    assert inspected(chatty, x).findings == ()
