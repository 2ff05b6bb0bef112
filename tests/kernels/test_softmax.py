"""Softmax kernels against the formula in float64."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from example_kernels.softmax import IMPLEMENTATIONS, softmax, with_triton

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LAYOUTS = ("contiguous", "transposed", "sliced", "misaligned", "expanded")
STRATEGIES = ["single_tile", "online", "split"] + (["shared"] if torch.cuda.is_available() else [])
INFINITY = float("inf")

few = settings(max_examples=25, deadline=None)
kernel = IMPLEMENTATIONS["triton"]


@st.composite
def shapes_and_dims(draw):
    shape = tuple(draw(st.lists(st.integers(0, 18), min_size=1, max_size=3)))
    return shape, draw(st.integers(-len(shape), len(shape) - 1))


@few
@given(shapes_and_dims(), st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.integers(0, 99))
def test_forward_matches_the_formula(draw, assert_close_to_float64, shape_and_dim, dtype, layout, seed):
    shape, dim = shape_and_dim
    x = draw(shape, dtype, layout, seed, scale=3.0)
    y = kernel(x, dim)
    assert (y.shape, y.dtype, y.is_contiguous()) == (x.shape, x.dtype, True)
    assert_close_to_float64(y, torch.softmax(x.double(), dim), ulps=8 if dtype == torch.float32 else 1)


@few
@given(shapes_and_dims(), st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.integers(0, 99))
def test_backward_matches_the_formula(draw, assert_close_to_float64, shape_and_dim, dtype, layout, seed):
    shape, dim = shape_and_dim
    x = draw(shape, dtype, layout, seed).requires_grad_()
    dy = draw(shape, dtype, layout, seed + 1)
    (dx,) = torch.autograd.grad(kernel(x, dim), x, dy)
    exact = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(torch.softmax(exact, dim), exact, dy.double())
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    assert_close_to_float64(dx, expected, ulps=8 if dtype == torch.float32 else 4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("columns", [1, 2, 4095, 4096, 4097, 9000])
def test_every_strategy_is_softmax(draw, device, strategy, columns):
    x = draw((3, columns), scale=5.0)
    y = torch.full_like(x, float("nan"))
    with_triton.softmax_rows(x, y, strategy)
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), -1), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_masked_and_extreme_rows(device, strategy):
    x = torch.zeros(8, 9000, device=device)
    x[0, :4096] = -INFINITY  # a whole tile, the first
    x[1, 4096:8192] = -INFINITY  # one in the middle
    x[2, :-1] = -INFINITY  # all but the last element
    x[3] = -INFINITY  # everything: no softmax, NaN
    x[4, 5000] = INFINITY
    x[5, 5000] = float("nan")
    x[6] = torch.linspace(-1e30, 1e30, 9000, device=device)
    x[7] = -3e38
    y = torch.empty_like(x)
    with_triton.softmax_rows(x, y, strategy)
    torch.testing.assert_close(y, torch.softmax(x, -1), equal_nan=True)


def test_rows_with_a_stride_are_read_where_they_lie(draw):
    wide = draw((5, 100))
    x = wide[:, 10:60]
    torch.testing.assert_close(kernel(x), torch.softmax(x, -1))


def test_more_slices_than_one_launch_takes(draw, monkeypatch):
    monkeypatch.setattr(with_triton, "MAXIMUM_GRID_Y", 3)
    x = draw((8, 5, 4))
    torch.testing.assert_close(kernel(x, 1), torch.softmax(x, 1))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_wide_strided_rows(draw, strategy):
    x = draw((3, 9001))[:, :8500]
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    with_triton.softmax_rows(x, y, strategy)
    torch.testing.assert_close(y, torch.softmax(x, -1))


@pytest.mark.parametrize(("shape", "dim"), [((3, 70), -1), ((3, 70, 5), 1), ((70,), 0), ((65, 1), -1)])
def test_nothing_is_written_outside_and_everything_inside(draw, guard_bands, shape, dim):
    x = draw(shape, torch.float16).requires_grad_()
    with guard_bands():
        y = kernel(x, dim)
        (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert not y.isnan().any()
    assert not dx.isnan().any()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("columns", [1, 70, 4097, 8999])
def test_rows_in_the_middle_of_a_buffer_leave_the_rest_alone(draw, device, strategy, columns):
    x = draw((3, columns))
    buffer = torch.full((128 + 3 * columns,), 12345.0, device=device)
    y = buffer[64:-64].view(3, columns)
    with_triton.softmax_rows(x, y, strategy)
    assert (buffer[:64] == 12345.0).all()
    assert (buffer[-64:] == 12345.0).all()
    torch.testing.assert_close(y, torch.softmax(x, -1))


@pytest.mark.parametrize(("length", "inner"), [(1, 3), (70, 5), (5, 70)])
def test_columns_in_the_middle_of_a_buffer_leave_the_rest_alone(draw, device, length, inner):
    x = draw((2, length, inner))
    buffer = torch.full((128 + x.numel(),), 12345.0, device=device)
    y = buffer[64:-64].view(x.shape)
    with_triton.softmax_columns(x, y)
    assert (buffer[:64] == 12345.0).all()
    assert (buffer[-64:] == 12345.0).all()
    torch.testing.assert_close(y, torch.softmax(x, 1))


@pytest.mark.parametrize("value", [0.0, 3e38, -3e38, 1e-40])
@pytest.mark.parametrize("columns", [1, 3, 1000])
def test_equal_elements_share_alike(device, value, columns):
    y = kernel(torch.full((2, columns), value, device=device))
    torch.testing.assert_close(y, torch.full_like(y, 1 / columns))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_dimension_of_one_gives_ones(draw, dim):
    shape = [3, 4, 5]
    shape[dim] = 1
    assert (kernel(draw(shape), dim) == 1).all()


def test_wide_rows_backward(draw, assert_close_to_float64):
    columns = with_triton.BACKWARD_TILE_COLUMNS + 5
    x, dy = draw((2, columns)).requires_grad_(), draw((2, columns), seed=1)
    (dx,) = torch.autograd.grad(kernel(x), x, dy)
    exact = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(torch.softmax(exact, -1), exact, dy.double())
    torch.testing.assert_close(dx.double(), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3)])
@pytest.mark.parametrize("dim", [0, -1])
def test_empty_tensors(draw, shape, dim):
    assert kernel(draw(shape), dim).shape == shape


def test_scalar_is_one(device):
    assert kernel(torch.tensor(3.0, device=device), 0).item() == 1.0


def test_wrong_arguments_are_named(device):
    with pytest.raises(TypeError, match="float64"):
        kernel(torch.ones(3, device=device, dtype=torch.float64))
    with pytest.raises(IndexError, match="dimension 2"):
        kernel(torch.ones(3, 3, device=device), 2)


def test_second_derivative_raises(draw):
    x = draw((5,)).requires_grad_()
    (dx,) = torch.autograd.grad(kernel(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="softmax"):
        dx.sum().backward()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [0, -1])
def test_opcheck(draw, layout, dim):
    torch.library.opcheck(with_triton.softmax, (draw((6, 35), layout=layout).requires_grad_(), dim))
    torch.library.opcheck(with_triton.softmax_backward, (draw((6, 35)), draw((6, 35), layout=layout), dim))


def test_compiles_without_a_graph_break(draw, device):
    @torch.compile(fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    def squared(x):
        return kernel(x, 0) ** 2

    x = draw((6, 35), layout="transposed").requires_grad_()
    squared(x).sum().backward()
    expected = torch.autograd.grad((torch.softmax(x, 0) ** 2).sum(), x)[0]
    torch.testing.assert_close(x.grad, expected)


def test_best_available_falls_back_to_torch_for_other_dtypes(draw):
    x = draw((5, 6), torch.float64)
    torch.testing.assert_close(softmax(x, 0), torch.softmax(x, 0))


def test_unfused_agrees(draw):
    x = draw((5, 6))
    torch.testing.assert_close(IMPLEMENTATIONS["unfused"](x, 0), torch.softmax(x, 0))


def test_rows_off_the_grid_are_shared_by_more_programs(draw):
    assert with_triton.shared_tile(draw((2, 64))) == with_triton.SHARED_TILE
    for rows in (draw((2, 65)), draw((2, 72))[:, :64], draw((130,))[2:].view(2, 64)):
        assert with_triton.shared_tile(rows) == with_triton.SHARED_TILE_OFF_GRID
    limit = 4096 * 4 * 132
    assert with_triton.strategy_for(9, limit, 132, True, 4096) == "shared"
    assert with_triton.strategy_for(9, limit + 1, 132, True, 4096) == "split"


@pytest.mark.parametrize(
    ("rows", "columns", "cooperative", "strategy"),
    [
        (10, 32768, True, "single_tile"),
        (10, 32769, True, "shared"),
        (10, 32769, False, "split"),
        (132, 32769, False, "online"),
        (10, 8192 * 528, True, "shared"),
        (10, 8192 * 528 + 1, True, "split"),
    ],
)
def test_strategy(rows, columns, cooperative, strategy):
    assert with_triton.strategy_for(rows, columns, multiprocessors=132, cooperative=cooperative) == strategy


@pytest.fixture
def softmax_candidates(monkeypatch):
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "softmax_candidates.py"
    spec = spec_from_file_location("softmax_candidates", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "softmax_candidates", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("columns", [256, 1024, 4096])
def test_every_candidate_is_softmax(draw, device, softmax_candidates, columns):
    x = draw((16, columns), scale=5.0)
    expected = torch.softmax(x.double(), -1)
    names = []
    for candidate in softmax_candidates.candidates(columns):
        y = torch.full_like(x, float("nan"))
        candidate.launch(x, y, 1)
        torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=1e-9)
        names.append(candidate.name)
    assert len(set(names)) == len(names) > 8


def test_a_candidate_that_does_not_fit_is_refused(draw, device, softmax_candidates):
    x = draw((16, 1000))
    with pytest.raises(ValueError, match="whole=False"):
        softmax_candidates.Candidate(1, 2).launch(x, torch.empty_like(x), 1)
    with pytest.raises(ValueError, match="whole=False"):
        softmax_candidates.Candidate(3, 2).launch(x[:, :512].contiguous(), torch.empty_like(x), 1)
