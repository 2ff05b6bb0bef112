"""What only a GPU can show of the softmax kernels; the rest of their tests are in tests/kernels and run there too."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
# Only now: importing triton settles whether kernels are interpreted, which tests/kernels must decide without a GPU.
pytest.importorskip("triton")

# torch remarks on contexts and precision that are not ours to set.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

from example_kernels.softmax import IMPLEMENTATIONS, softmax, with_triton  # noqa: E402

kernel = IMPLEMENTATIONS["triton"]


@pytest.mark.parametrize(
    "shape",
    [
        (65536, 256),
        (4096, 4096),
        (300, 32768),
        (200, 32769),
        (3, 131072),
        (64, 1048576),
        (2, 5_000_000),
        (200, 500_000),
        (100_000, 1),
    ],
)
def test_matches_torch_at_every_width(shape):
    x = torch.randn(shape, device="cuda") * 3
    torch.testing.assert_close(kernel(x), torch.softmax(x, -1), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types_are_rounded_once(dtype):
    x = torch.randn(100, 50000, device="cuda", dtype=dtype)
    expected = torch.softmax(x.double(), -1)
    torch.testing.assert_close(kernel(x).double(), expected, rtol=torch.finfo(dtype).eps, atol=6e-8)


@pytest.mark.parametrize("shape", [(100, 40000), (7, 300000), (1000, 1000)])
def test_the_same_bits_every_time(shape):
    x = torch.randn(shape, device="cuda")
    first = kernel(x)
    for _ in range(5):
        assert torch.equal(kernel(x), first)


def test_rows_shared_by_programs_can_be_launched_again_and_again():
    x = torch.randn(64, 200_000, device="cuda")
    expected = torch.softmax(x, -1)
    for _ in range(50):
        torch.testing.assert_close(kernel(x), expected, rtol=1e-5, atol=1e-9)


def test_elements_past_two_to_the_31():
    rows = 2**31 // 4096 + 8
    x = torch.zeros(rows, 4096, device="cuda", dtype=torch.float16)
    x[-1] = torch.randn(4096, device="cuda")
    y = kernel(x)
    torch.testing.assert_close(y[-1], torch.softmax(x[-1].float(), -1).half())
    assert (y[:-1] == 1 / 4096).all()


def test_more_outer_slices_than_a_grid_dimension():
    x = torch.randn(70_000, 3, 5, device="cuda")
    torch.testing.assert_close(kernel(x, 1), torch.softmax(x, 1))


def test_runs_on_the_current_stream():
    x = torch.zeros(64, 50000, device="cuda")
    kernel(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x[:, 0] = 100.0
        y = kernel(x)
    stream.synchronize()
    torch.testing.assert_close(y[:, 0], torch.ones(64, device="cuda"))


def test_compiled_formula_agrees():
    x = torch.randn(50, 70, device="cuda")
    torch.testing.assert_close(IMPLEMENTATIONS["compiled"](x, -1), torch.softmax(x, -1))


def test_picks_triton_on_cuda_tensors_and_refuses_cpu_tensors():
    x = torch.randn(50, 70, device="cuda")
    assert torch.equal(softmax(x), kernel(x))
    with pytest.raises(ValueError, match="cpu"):
        with_triton.softmax(x.cpu(), -1)
