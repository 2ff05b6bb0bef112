"""Checks on a real GPU: what has no counterpart on the CPU. The gallery under tests/checks runs on both."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from pytest_gpuperf.checks.budget import Budget
from pytest_gpuperf.checks.inspection import Inspection
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.checks.watching import CudaWatcher
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
LONGEST_S = 0.5


@pytest.fixture(scope="module")
def backend():
    made = backend_for("cuda")
    # Nothing small is told from these times, so that they need not wait until the GPU has settled.
    made.warmup = replace(made.warmup, least_work_us=20_000.0, longest_us=100_000.0, tolerance=0.1)
    CudaWatcher(torch, 0).warm_up()
    yield made
    made.close()


@pytest.fixture
def x():
    return torch.randn(1024, 1024, device="cuda")


@pytest.fixture
def inspected(backend, record_property):
    def run(fn, *args, **stated):
        allow = stated.pop("allow", ())
        inspection = Inspection(
            Subject(fn=fn, args=args, device=backend.device, **stated), allowed=allow, budget=Budget()
        )
        expected = None
        if "reference" in stated:
            expected = stated["reference"](*args)
            inspection.reference_done()
        inspection.first_call(fn(*args), expected)
        inspection.before()
        settings = BenchmarkSettings(trials=20, max_time=0.1)
        with inspection.timing():
            found = measure(lambda: fn(*args), Plan(benchmark=BenchmarkId(node_id="test"), settings=settings), backend)
        after = inspection.after(found.record, found.identity.timer)
        record_property("check_seconds", after.seconds)
        assert after.seconds < LONGEST_S
        return after

    return run


@pytest.fixture
def silent(inspected):
    def run(fn, *args, **stated):
        found = inspected(fn, *args, **stated)
        assert found.findings == ()
        assert found.notes == ()
        return found

    return run


def checks(found):
    return {finding.check for finding in found.findings}


def seen(found, check):
    return "\n".join(finding.seen for finding in found.findings if finding.check == check)


def busy(x, times=4):
    """Products whose values keep the spread of `x`: outputs next to nothing do not differ."""
    for _ in range(times):
        x = x @ x / 32.0
    return x


def test_reading_values_is_named_by_line(inspected, x):
    def step(x):
        total = torch.softmax(x, -1).sum()
        read(total)
        if total > 1e9:
            total = total * 2
        return total

    def read(total):
        return total.item()

    found = seen(inspected(step, x), "sync")
    assert "return total.item()" in found
    assert "if total > 1e9:" in found
    assert "test_checks.py" in found


def test_printing_a_tensor_is_one_line(inspected, x, capsys):
    def step(x):
        y = x * 2
        print(y[:2, :2])  # noqa: T201 - that is what is looked for
        return y

    found = inspected(step, x)
    assert seen(found, "sync").count("print(y[:2, :2])") == 1


@pytest.mark.parametrize("how", ["device", "event", "stream"])
def test_waiting_on_purpose_is_named(inspected, x, how):
    def step(x):
        y = x * 2
        if how == "device":
            torch.cuda.synchronize()
        elif how == "event":
            event = torch.cuda.Event()
            event.record()
            event.synchronize()
        else:
            torch.cuda.current_stream().synchronize()
        return y

    assert "synchronize()" in seen(inspected(step, x), "sync")


def test_an_operation_that_waits_by_nature_is_named(inspected, x):
    assert "the callable itself" in seen(inspected(torch.nonzero, x), "sync")


def test_copies_from_pageable_memory_are_named(inspected, x):
    bias = torch.randn(1024)

    def step(x):
        return x + bias.to("cuda", non_blocking=True)

    found = seen(inspected(step, x), "pageable")
    assert 'bias.to("cuda", non_blocking=True)' in found
    assert "4096 bytes" in found


def test_copies_from_pinned_memory_are_not(silent, x):
    bias = torch.randn(1024).pin_memory()
    silent(lambda x: x + bias.to("cuda", non_blocking=True), x)


def test_work_on_a_stream_that_is_not_joined(inspected, x):
    side = torch.cuda.Stream()

    def cheat(x):
        output = torch.empty_like(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            output.copy_(busy(x))
        return output

    assert "streams" in checks(inspected(cheat, x))


def test_work_on_a_stream_that_ignores_the_callers(inspected, x):
    side = torch.cuda.Stream()

    def cheat(x):
        with torch.cuda.stream(side):
            output = busy(x)
        x.add_(0.0)
        return output

    assert "streams" in checks(inspected(cheat, x))


def test_work_in_a_thread_on_its_own_stream(inspected, x):
    side = torch.cuda.Stream()

    def cheat(x):
        output = torch.empty_like(x)

        def late():
            time.sleep(0.001)
            with torch.cuda.stream(side):
                output.copy_(busy(x))

        threading.Thread(target=late).start()
        x.add_(0.0)
        return output

    assert checks(inspected(cheat, x)) & {"streams", "stale"}


def test_caching_behind_a_decoy_kernel(inspected, x):
    cache = {}

    def cheat(x):
        x[:1].add_(0.0)
        if x.data_ptr() not in cache:
            cache[x.data_ptr()] = busy(x)
        return cache[x.data_ptr()]

    assert "caching" in checks(inspected(cheat, x))


def test_a_graph_that_leaves_work_out(inspected, x):
    static, output = torch.empty_like(x), torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    output.copy_(busy(static.copy_(x)))
    with torch.cuda.graph(graph):
        static.copy_(x)

    def cheat(x):
        static.copy_(x)
        graph.replay()
        return output.clone()

    assert "output" in checks(inspected(cheat, x, reference=busy))


def test_stale_memory(inspected, x):
    def cheat(x):
        busy(x)
        return torch.empty_like(x)

    assert "stale" in checks(inspected(cheat, x))


def test_tf32_in_place_of_float32(inspected, x):
    def cheat(x):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return x @ x
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    assert "precision" in checks(inspected(cheat, x, reference=lambda x: x @ x))


def test_triton_tunes_on_every_call(inspected, x):
    triton = pytest.importorskip("triton")
    kernel = scale_kernel(triton)

    def cheat(x):
        cheat.calls += 1
        output = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, output, x.numel(), BLOCK=1024, SALT=cheat.calls % 50)
        return output

    cheat.calls = 0
    assert "compiling" in checks(inspected(cheat, x))


def scale_kernel(triton):
    import triton.language as tl

    global language  # a kernel finds its names among the module's
    language = tl

    @triton.jit
    def scale(x, y, n, BLOCK: language.constexpr, SALT: language.constexpr):
        at = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        value = language.load(x + at, mask=at < n)
        language.store(y + at, value * 2, mask=at < n)

    return scale


def test_the_kernel_limit(inspected, x):
    found = inspected(lambda x: (x * 2).exp(), x, max_kernels=1)
    (finding,) = found.findings
    assert finding.check == "kernels"
    assert finding.is_limit
    assert "one call launches 2" in finding.seen
    assert inspected(torch.exp, x, max_kernels=1).findings == ()


def test_the_kernel_list(silent, x):
    found = silent(lambda x: torch.softmax(x, -1) * 2.0, x)
    assert len(found.kernel_names) == 2
    assert "softmax" in found.kernel_names[0].lower()
    assert all(use.time_us > 0 and use.launches == 1 and len(use.streams) == 1 for use in found.kernels)


def test_honest_streams_that_join(silent, x):
    side = torch.cuda.Stream()

    def joined(x):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            left = busy(x)
        right = busy(x)
        main.wait_stream(side)
        return left + right

    silent(joined, x)


def test_an_honest_graph(silent, x):
    static = x.clone()
    busy(static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = busy(static)

    def replayed(x):
        static.copy_(x)
        graph.replay()
        return output.clone()

    silent(replayed, x, reference=busy)
    silent(lambda: graph.replay())


def test_honest_cublas(silent, x):
    half = x.bfloat16()
    silent(torch.matmul, half, half, reference=torch.matmul)
    silent(torch.matmul, x, x, reference=torch.matmul)


def test_honest_compiled(silent, x):
    compiled = torch.compile(lambda x: torch.nn.functional.gelu(x * 2.0) + 1.0)
    compiled(x)
    silent(compiled, x, reference=lambda x: torch.nn.functional.gelu(x * 2.0) + 1.0)


def test_honest_autotuned_triton(silent, x):
    triton = pytest.importorskip("triton")
    configs = [triton.Config({"BLOCK": block}) for block in (512, 1024)]
    kernel = triton.autotune(configs=configs, key=["n"])(scale_kernel(triton))

    def scaled(x):
        output = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, output, x.numel(), SALT=0)
        return output

    scaled(x)
    silent(scaled, x, reference=lambda x: x * 2)


def test_honest_dropout_attention_and_training(silent, x):
    silent(lambda x: torch.nn.functional.dropout(x, 0.5), x)
    q = torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.bfloat16)
    silent(torch.nn.functional.scaled_dot_product_attention, q, q, q)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def step(x):
        optimiser.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    silent(step, x)


def test_an_output_that_is_reused(silent, x):
    output = torch.empty_like(x)
    silent(lambda x: torch.softmax(x, -1, out=output), x)
