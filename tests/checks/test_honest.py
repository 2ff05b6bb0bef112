"""Honest callables, of which no check says anything."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x, -1)


def test_plain_operations(silent, x):
    silent(torch.softmax, x, kwargs={"dim": -1})
    silent(torch.nn.functional.gelu, x)
    silent(lambda x: (x @ x.t(), x.sum(-1)), x)


@pytest.mark.parametrize("reduce", [torch.max, torch.sum, torch.argmax, torch.std])
def test_reductions(silent, x, reduce):
    silent(reduce, x)


def test_an_output_that_many_inputs_share(silent, x):
    silent(lambda x: (x > 100.0).float(), x)
    silent(torch.zeros_like, x)


def test_with_a_reference(silent, x):
    silent(lambda x: x.exp() / x.exp().sum(-1, keepdim=True), x, reference=softmax)


def test_lower_precision_than_float64_where_the_reference_has_it_too(silent, x):
    silent(lambda x: torch.softmax(x, -1), x.bfloat16(), reference=softmax)
    silent(lambda x: torch.softmax(x.half(), -1).float(), x, reference=lambda x: torch.softmax(x.half(), -1).float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.int32])
def test_dtypes(silent, x, dtype):
    silent(lambda x: x * 3 + 1, (x * 100).to(dtype), reference=lambda x: x * 3 + 1)


def test_numbers_as_indices(silent, x):
    silent(lambda x, rows: x[rows].sum(0), x, torch.arange(0, 64, 3, device=x.device))
    silent(torch.nn.functional.embedding, torch.arange(50, device=x.device), x)


def test_compiled(silent, x):
    compiled = torch.compile(lambda x: torch.softmax(x * 2.0 + 1.0, -1), backend="aot_eager")
    compiled(x)
    silent(compiled, x)


def test_declared_in_place(silent, x):
    silent(torch.Tensor.relu_, x.clone())
    silent(lambda x: x.mul_(2.0), setup=lambda: ((x.clone(),), {}))
    silent(torch.exp, x, kwargs={"out": torch.empty_like(x)})


def test_allowed_by_name(inspected, x):
    found = inspected(lambda x: x.mul_(1.01), x.clone(), allow=("mutation",))
    assert found.findings == ()


@pytest.mark.usefixtures("on_cpu")
def test_a_declared_view(inspected, x):
    assert inspected(lambda x: x.t(), x, allow=("aliasing", "work")).findings == ()


def test_an_output_argument(silent, x):
    def kernel(x, output):
        torch.softmax(x, -1, out=output)

    silent(kernel, x, torch.zeros_like(x))

    def part(x, output):
        output[:8] = x[:8] * 2

    silent(part, x, torch.zeros_like(x))


def test_an_output_argument_of_indices(silent, x):
    def kernel(x, indices):
        indices.copy_(x.argmax(-1))

    silent(kernel, x, torch.zeros(64, dtype=torch.long, device=x.device))


def test_an_output_argument_that_is_returned(silent, x):
    def kernel(x, output):
        return output.copy_(x.exp())

    silent(kernel, x, torch.zeros_like(x))


def test_seeded_dropout(silent, x):
    def dropout(x):
        torch.manual_seed(0)
        return torch.nn.functional.dropout(x, 0.5)

    silent(dropout, x, reference=dropout)


def test_seeded_random_numbers(silent, x):
    def drawn(x):
        torch.manual_seed(0)
        return torch.rand_like(x)

    silent(drawn, x)


def test_dropout(silent, x):
    silent(lambda x: torch.nn.functional.dropout(x, 0.5), x)
    silent(torch.rand_like, x)


def test_constants_computed_once(silent, x):
    @functools.lru_cache
    def table(columns):
        angles = torch.outer(torch.arange(64.0), torch.arange(columns) / columns).to(x.device)
        return angles.cos(), angles.sin()

    def rotated(x):
        cos, sin = table(x.shape[-1])
        return x * cos + x.flip(-1) * sin

    silent(rotated, x)


def test_weights_prepared_once(silent, x):
    packed = {}

    def multiplied(x, w):
        if id(w) not in packed:
            packed[id(w)] = w, torch.softmax(w.t().contiguous(), -1)
        return x @ packed[id(w)][1]

    silent(multiplied, x, torch.randn(128, 128, device=x.device))


def test_an_output_that_is_reused(silent, x):
    output = torch.empty_like(x)

    def kernel(x):
        return torch.softmax(x, -1, out=output)

    silent(kernel, x)
    silent(kernel, x, reference=softmax)


def test_a_workspace_that_is_reused(silent, x):
    workspace = torch.empty(8, 128, device=x.device)

    def kernel(x):
        torch.sum(x.view(8, 8, 128), 1, out=workspace)
        return workspace.sum(0)

    silent(kernel, x, reference=lambda x: x.sum(0))


def test_autograd(silent, device):
    w = torch.randn(64, 64, device=device, requires_grad=True)
    silent(lambda w: torch.autograd.grad((w.exp()).sum(), w)[0], w)

    def step(w):
        w.grad = None
        (w * w).sum().backward()
        return w.grad

    silent(step, w)


def test_a_training_step(silent, x):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(x.device)
    optimiser = torch.optim.AdamW(model.parameters())

    def step(x):
        optimiser.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    silent(step, x)


def test_callables_that_remember(silent, x):
    average, cache = torch.zeros_like(x), []

    def smoothed(x):
        return average.mul_(0.99).add_(x, alpha=0.01)

    silent(smoothed, x)

    def appended(x):
        cache.append(x[:1].clone())
        return torch.softmax(x[:1] @ torch.cat(cache[-16:]).t(), -1)

    silent(appended, x, reference=lambda x: torch.softmax(x[:1] @ x[:1].t(), -1))


def test_extra_work_now_and_then(silent, x):
    for start in range(10):

        def step(x):
            step.calls += 1
            if step.calls % 10 == 0:
                step.logged = x.sin().sum()
            return x * 2

        step.calls = start
        silent(step, x)


class Batch(NamedTuple):
    data: torch.Tensor
    out: torch.Tensor


def test_containers_of_a_type_of_their_own(silent, x):
    batch = Batch(x, torch.zeros_like(x))
    before = batch.data.clone()
    silent(lambda batch: batch.out.copy_(batch.data * 2), batch)
    assert torch.equal(batch.data, before)
    assert torch.equal(batch.out, before * 2)


def test_eight_bits(silent, x):
    silent(lambda x: x.float() * 2, x.to(torch.float8_e4m3fn))
    silent(lambda x: x.float() * 2, (x * 10).to(torch.int8))


def test_the_inputs_are_left_as_they_were(silent, x):
    before = x.clone()
    silent(lambda x: softmax(x) @ x.t(), x, reference=lambda x: softmax(x) @ x.t())
    assert torch.equal(x, before)


def test_a_module(silent, x):
    silent(torch.nn.Linear(128, 32).to(x.device), x)
    silent(torch.nn.BatchNorm1d(128).to(x.device), x)


def test_no_tensor_arguments(silent, x):
    silent(lambda: torch.softmax(x, -1))
    silent(lambda rows: torch.arange(rows, device=x.device).float().sqrt(), 100)


@pytest.mark.usefixtures("on_cpu")
def test_no_tensors_at_all(silent):
    silent(sorted, [3, 1, 2])
    silent(lambda n: list(range(n)), 100)
    silent(lambda: None)


@pytest.mark.usefixtures("on_cpu")
def test_iteration_until_it_converges(silent):
    def root(a):
        guess = a.clone()
        for _ in range(100):
            new = (guess + a / guess) / 2
            if torch.allclose(new, guess):
                break
            guess = new
        return guess

    silent(root, torch.rand(1000) + 0.5, reference=torch.sqrt)


def test_symmetric_positive_inputs(silent, x):
    # `cholesky` itself waits for the GPU, to raise what went wrong.
    factor, reference = (lambda a: torch.linalg.cholesky_ex(a).L), torch.linalg.cholesky
    silent(factor, x @ x.t() + 64 * torch.eye(64, device=x.device), reference=reference)


def test_odd_layouts(silent, x):
    silent(lambda x: x * 2, x.t())
    silent(lambda x: x * 2, x[:, ::2])
    silent(lambda x: x * 2, x[:1].expand(64, 128))
    silent(lambda x: x * 2, x.reshape(-1)[1:1001])
    silent(lambda x: x * 2, torch.tensor(3.0, device=x.device))


@pytest.mark.usefixtures("on_cpu")
def test_tensors_of_another_kind(silent, x):
    silent(lambda x: x * 2, torch.empty(0, 5))
    silent(torch.relu, x.to_sparse())


def test_nested_arguments_and_outputs(silent, x):
    silent(lambda batch: {"sum": [batch["a"] + batch["b"][0]]}, {"a": x, "b": (x + 1,)})


def test_nan_and_infinity(silent, x):
    x[0] = float("nan")
    x[1] = float("inf")
    silent(softmax, x, reference=softmax)


@pytest.mark.usefixtures("on_cpu")
def test_numpy_below(silent, x):
    numpy = pytest.importorskip("numpy")
    silent(lambda x: torch.from_numpy(numpy.sort(x.numpy(), -1)), x)


@pytest.mark.usefixtures("on_cpu")
def test_a_compiled_library_that_fills_a_buffer(silent, x):
    numpy = pytest.importorskip("numpy")
    output = torch.empty_like(x)
    silent(lambda x: numpy.exp(x.numpy(), out=output.numpy()) is None or output, x)


def test_threads_that_are_joined(silent, x):
    with ThreadPoolExecutor(2) as pool:

        def halves(x):
            return torch.cat(list(pool.map(softmax, x.chunk(2))))

        silent(halves, x, reference=softmax)

    def joined(x):
        output = torch.empty_like(x)
        thread = threading.Thread(target=lambda: output.copy_(softmax(x)))
        thread.start()
        thread.join()
        return output

    silent(joined, x)


@pytest.mark.usefixtures("on_cpu")
def test_items_read_on_the_cpu(silent, x):
    silent(lambda x: softmax(x).sum().item(), x)


def test_partly_constant_inputs(silent, x):
    silent(lambda x, bias: x + bias, x, torch.zeros_like(x))


def test_a_function_that_refuses_other_inputs_is_not_blamed(inspected, x):
    def choosy(x):
        if x.data_ptr() != known:
            raise ValueError("other memory than I know")
        return softmax(x)

    known = x.data_ptr()
    found = inspected(choosy, x)
    assert found.findings == ()
    assert any("failed: ValueError: other memory than I know" in note for note in found.notes)
