"""More honest callables: objects of all kinds, libraries, and state that is meant to be there."""

from __future__ import annotations

import asyncio
import functools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x, -1)


def test_a_cache_of_keys_and_values_that_grows(inspected, x):
    class Cache:
        def __init__(self):
            self.keys, self.at = torch.zeros(4096, 128, device=x.device), 0

        def append(self, x):
            self.keys[self.at : self.at + 1] = x[:1]
            self.at = (self.at + 1) % 4096
            return softmax(x[:1] @ self.keys[: self.at + 1].t())

    assert inspected(Cache().append, x).findings == ()
    keys, at = torch.zeros(512, 128, device=x.device), torch.zeros((), dtype=torch.long, device=x.device)

    def append(x, keys, at):
        keys.index_copy_(0, at.reshape(1) % 512, x[:1])
        at.add_(1)
        return softmax(x[:1] @ keys.t())

    assert inspected(append, x, keys, at, allow=("mutation",)).findings == ()


def test_partial_functions_and_bound_methods(silent, x):
    silent(functools.partial(torch.softmax, dim=-1), x)
    silent(x.softmax, -1)
    silent(torch.nn.Linear(128, 8).to(x.device).forward, x)


def test_modules_in_evaluation(silent, x):
    layers = torch.nn.Sequential(
        torch.nn.Linear(128, 32), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(32), torch.nn.GELU()
    )
    silent(layers.eval().to(x.device), x)
    silent(torch.nn.TransformerEncoderLayer(128, 4, 64, batch_first=True).eval().to(x.device), x[None])
    silent(torch.nn.LSTM(128, 16, batch_first=True).eval().to(x.device), x[None])
    silent(torch.inference_mode()(layers), x)


class Workspace:
    """Holds a buffer from call to call."""

    def __init__(self):
        self.buffer = None

    def __call__(self, x):
        if self.buffer is None or self.buffer.shape != x.shape:
            self.buffer = torch.empty_like(x)
        torch.exp(x, out=self.buffer)
        return self.buffer / self.buffer.sum(-1, keepdim=True)


def test_a_callable_object_with_a_workspace(silent, x):
    silent(Workspace(), x, reference=softmax)
    silent(Workspace(), x)


def test_a_generator_of_its_own(silent, x):
    generator = torch.Generator(x.device)

    def seeded(x):
        generator.manual_seed(0)
        return x * torch.bernoulli(torch.full_like(x, 0.5), generator=generator)

    silent(seeded, x, reference=seeded)
    silent(lambda x: x * torch.bernoulli(torch.full_like(x, 0.5), generator=generator), x)
    silent(lambda x: x * random.random(), x)


def test_transformed_functions(silent, x):
    silent(torch.func.vmap(lambda row: row / row.norm()), x)
    silent(torch.func.grad(lambda x: (x.sin() ** 2).sum()), x)
    silent(torch.func.jacrev(lambda row: row.exp().sum()), x[0])


def test_scattering(silent, x):
    rows = torch.arange(64, device=x.device) % 7
    silent(lambda x: torch.zeros(7, 128, device=x.device).index_add_(0, rows, x), x)
    silent(
        lambda x, rows: torch.zeros(7, 128, device=x.device).scatter_add(0, rows[:, None].expand(64, 128), x), x, rows
    )


def test_sparse_matrices(silent, x):
    dense = torch.where(x.abs() > 1.5, x, torch.zeros_like(x))
    silent(torch.sparse.mm, dense.to_sparse(), x.t().contiguous(), allow=("sync",))


def test_complex_numbers(silent, x):
    silent(torch.fft.fft, x)
    silent(lambda x: torch.fft.ifft(torch.fft.fft(x) * 2.0).real, x, reference=lambda x: x * 2.0)
    silent(lambda z: z.conj() @ z.t(), torch.complex(x, -x))


def test_integers_only(silent, device):
    numbers = torch.randperm(5000, generator=torch.Generator().manual_seed(0)).to(device)
    silent(torch.sort, numbers)
    silent(lambda n: torch.bincount(n % 17), numbers, allow=("sync",))
    silent(torch.cumsum, numbers, kwargs={"dim": 0}, reference=functools.partial(torch.cumsum, dim=0))
    silent(lambda n: n + 1, numbers)
    silent(torch.unique, numbers % 100, allow=("sync",))


def test_masks_and_outputs_of_any_size(silent, x):
    silent(lambda x: x[x > 0], x, allow=("sync",))
    silent(lambda x: x.masked_fill(x < 0, 0.0), x)
    silent(lambda x: torch.topk(x, 5), x)
    silent(lambda x: torch.nn.functional.one_hot(x.argmax(-1), 128), x, allow=("sync",))


@pytest.mark.usefixtures("on_cpu")
def test_numpy_only(silent):
    numpy = pytest.importorskip("numpy")
    a = numpy.random.default_rng(0).standard_normal((64, 64))
    silent(numpy.sort, a)
    silent(lambda a: a @ a.T, a, reference=lambda a: numpy.einsum("ij,kj->ik", a, a))


@dataclass
class State:
    weight: torch.Tensor
    moment: torch.Tensor


def test_state_in_an_object_of_the_users(silent, x):
    state = State(x.clone(), torch.zeros_like(x))

    def step(state, gradient):
        state.moment.mul_(0.9).add_(gradient, alpha=0.1)
        state.weight.sub_(state.moment, alpha=0.01)

    silent(step, state, x)


def test_inputs_that_cannot_be_written_to(silent, x):
    with torch.inference_mode():
        silent(softmax, x.clone())
    silent(softmax, torch.nn.Parameter(x))
    silent(lambda x: softmax(x * 2), x.expand(3, 64, 128))


def test_what_is_passed_through_beside_the_work(silent, x):
    silent(lambda x: (x, softmax(x)), x)
    silent(lambda x, mask: {"x": x * 2, "mask": mask}, x, x > 0)
    silent(lambda x: softmax(x).t(), x)
    silent(lambda x: x.sum(0, keepdim=True).expand(64, 128), x)


def test_nothing_but_zeros(silent, x):
    silent(lambda x: torch.relu(-x.abs()), x)
    silent(lambda x: torch.zeros_like(x), x)


def test_a_buffer_of_which_only_the_valid_part_is_returned(silent, x):
    def padded(x):
        buffer = torch.empty(128, 128, device=x.device)
        buffer[:64] = x * 2
        return buffer[:64]

    silent(padded, x)


def test_a_table_for_each_shape(silent, x):
    masks = {}

    def masked(x):
        if x.shape not in masks:
            masks[x.shape] = torch.ones(64, 128, device=x.device).triu()
        return softmax(x * masks[x.shape])

    silent(masked, x, reference=lambda x: softmax(x * torch.ones(64, 128, device=x.device).triu()))


def test_functions_of_autograds_own(silent, x):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    silent(Scale.apply, x.clone().requires_grad_())
    silent(lambda x: torch.autograd.grad(Scale.apply(x).sum(), x), x.clone().requires_grad_())
    silent(torch.utils.checkpoint.checkpoint, softmax, x.clone().requires_grad_(), kwargs={"use_reentrant": False})


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_traced_functions(silent, x):
    silent(torch.jit.trace(softmax, x), x)


def test_a_pool_of_threads_that_is_waited_for(silent, x):
    with ThreadPoolExecutor(2) as pool:
        silent(lambda x: pool.submit(softmax, x).result(), x, reference=softmax)


def test_work_that_follows_the_values(silent, x):
    def adaptive(x):
        for _ in range(20):
            if float(x.abs().max()) <= 1.0:
                break
            x = x / 2
        return softmax(x)

    silent(adaptive, x, allow=("sync",))
    silent(lambda x: softmax(x) if float(x.max()) > 100.0 else torch.sigmoid(x), x, allow=("sync",))


def test_tiny_values(silent, x):
    silent(lambda x: softmax(x) * 1e-12, x, reference=lambda x: softmax(x) * 1e-12)
    silent(lambda x: (x - x.mean(-1, keepdim=True)).sum(-1), x, reference=lambda x: x.sum(-1) - 128 * x.mean(-1))


def test_a_list_of_many_tensors(silent, x):
    parts = [x[i].clone() for i in range(64)]
    silent(lambda parts: torch._foreach_mul(parts, 2.0), parts)
    silent(torch.cat, parts)
    silent(torch.stack, tuple(parts))


def test_a_decode_step_with_a_sampler(silent, x):
    weight = torch.randn(128, 50, device=x.device)
    silent(lambda x: torch.multinomial(softmax(x @ weight), 1), x, allow=("sync",))
    silent(lambda x: (x @ weight).argmax(-1), x)


def test_a_copy_that_the_inputs_at_hand_do_not_need(silent, x):
    static = x.clone()

    def replayed(given):
        if given is not static:
            static.copy_(given)
        return torch.exp(static)

    silent(replayed, static, allow=("mutation",))


def test_a_function_beside_the_result(silent, x):
    silent(lambda x: torch.func.vjp(softmax, x), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_results_that_depend_on_the_values_of_each_dtype(silent, x, dtype):
    silent(lambda x: x * 2 if float(x.abs().max()) > 1e9 else x + 1, x.to(dtype), allow=("sync",))


def test_a_module_whose_gradients_are_cleared(silent, x):
    layers = {"all": [torch.nn.Linear(128, 4).to(x.device)]}

    def step(x):
        for parameter in layers["all"][0].parameters():
            parameter.grad = None
        layers["all"][0](x).sum().backward()

    silent(step, x)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_inputs_that_are_sorted(silent, x, scale):
    edges = torch.linspace(-scale, scale, 33, device=x.device)

    def binned(x, edges):
        """Count by comparing, where the reference searches: alike only if the edges are sorted."""
        return (x.reshape(-1, 1) > edges).float().sum(-1)

    silent(binned, x, edges, reference=lambda x, edges: torch.searchsorted(edges, x.reshape(-1)).float())


def test_inputs_of_unit_length(silent, x):
    axes = x / x.norm(dim=-1, keepdim=True)

    def reflected(axes):
        return axes - 2 * axes.sum(-1, keepdim=True) * axes

    def reference(axes):
        return axes - 2 * axes.sum(-1, keepdim=True) * axes / axes.square().sum(-1, keepdim=True)

    silent(reflected, axes, reference=reference)


def test_inputs_that_add_up_to_one(silent, x):
    silent(lambda p: 1.0 - p[:, 0], torch.softmax(x[:, :4], -1).contiguous(), reference=lambda p: p[:, 1:].sum(-1))


def test_nested_and_jagged_tensors(silent, x):
    if x.device.type == "cpu":
        silent(lambda x: x.sin(), torch.nested.nested_tensor([x[:3], x[:5]], layout=torch.jagged))


@pytest.mark.usefixtures("on_cpu")
def test_an_event_loop_that_runs_to_its_end(silent, x):
    async def work(x):
        await asyncio.sleep(0)
        return softmax(x)

    silent(lambda x: asyncio.run(work(x)), x, reference=softmax)
