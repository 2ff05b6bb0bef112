from __future__ import annotations

import pytest

from pytest_gpuperf.checks.correctness import verify

NAN = float("nan")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, None),
        (3, 3),
        (3, 3.0),
        (0.1 + 0.2, 0.3),
        (NAN, NAN),
        (float("inf"), float("inf")),
        (1j, 1j),
        ("a", "a"),
        ([1.0, {"x": (2.0, "b")}], [1.0, {"x": (2.0, "b")}]),
        ((1, 2), [1, 2]),
    ],
)
def test_equal_outputs_pass(output, expected):
    verify(output, expected)


@pytest.mark.parametrize(
    ("output", "expected", "message"),
    [
        (None, 3, "output differs from the reference's: None instead of 3"),
        (1.001, 1.0, r"output .*1\.001 instead of 1\.0"),
        (NAN, 1.0, "nan instead of 1.0"),
        (float("inf"), -float("inf"), "inf instead of -inf"),
        ([1.0, 2.5], [1.0, 2.0], r"output\[1\] differs"),
        ([1.0], [1.0, 2.0], "1 items instead of 2"),
        ({"x": {"y": 1}}, {"x": {"y": 2}}, r"output\['x'\]\['y'\] differs"),
        ({"x": 1}, {"z": 1}, "keys"),
        (3, [3], "a int instead of a list"),
        ("a" * 500, "b", "…"),
    ],
)
def test_different_outputs_are_told_with_their_place(output, expected, message):
    with pytest.raises(AssertionError, match=message):
        verify(output, expected)


def test_tolerances_go_together():
    with pytest.raises(ValueError, match="go together"):
        verify(1.0, 1.0, rtol=0.1)
    with pytest.raises(ValueError, match="go together"):
        verify(1.0, 1.0, atol=0.1)
    verify(1.05, 1.0, rtol=0.1, atol=0.0)


class TestTensors:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    def test_tolerances_follow_the_dtype(self):
        ones = self.torch.ones(4)
        verify(ones + 1e-6, ones)
        with pytest.raises(AssertionError, match=r"output differs from .* not close"):
            verify(ones + 1e-4, ones)
        verify((ones + 4e-3).bfloat16(), ones.bfloat16())
        verify(ones + 0.05, ones, rtol=0.1, atol=0.0)

    def test_nan_equals_nan_and_nothing_else(self):
        holed = self.torch.tensor([1.0, NAN])
        verify(holed, holed.clone())
        with pytest.raises(AssertionError):
            verify(holed, self.torch.ones(2))

    def test_a_lower_precision_than_the_references_is_told(self):
        with pytest.raises(AssertionError, match="dtype"):
            verify(self.torch.ones(2).half(), self.torch.ones(2))

    def test_a_different_shape_is_told(self):
        with pytest.raises(AssertionError, match="shape"):
            verify(self.torch.ones(2), self.torch.ones(2, 1))

    def test_strides_and_gradients_do_not_matter(self):
        values = self.torch.randn(3, 4)
        verify(values.t().contiguous().t(), values)
        verify(values.clone().requires_grad_(), values)

    def test_nested_outputs_name_the_tensor(self):
        zeros, ones = self.torch.zeros(2), self.torch.ones(2)
        verify((zeros, {"grad": ones}), (zeros, {"grad": ones}))
        with pytest.raises(AssertionError, match=r"output\[1\]\['grad'\] differs"):
            verify((zeros, {"grad": zeros}), (zeros, {"grad": ones}))

    def test_something_else_than_a_tensor_is_told(self):
        with pytest.raises(AssertionError, match="a NoneType instead of a Tensor"):
            verify(None, self.torch.ones(2))
        with pytest.raises(AssertionError, match="a Tensor instead of a float"):
            verify(self.torch.ones(()), 1.0)


class TestArrays:
    @pytest.fixture(autouse=True)
    def _numpy(self):
        self.numpy = pytest.importorskip("numpy")

    def test_tolerances_follow_the_dtype(self):
        ones = self.numpy.ones(4, dtype="float32")
        verify(ones + self.numpy.float32(1e-6), ones)
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            verify(ones + self.numpy.float32(1e-4), ones)
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            verify(self.numpy.ones(4) + 1e-6, self.numpy.ones(4))

    def test_integers_are_exact(self):
        verify(self.numpy.arange(4), self.numpy.arange(4))
        with pytest.raises(AssertionError, match="3 elements are not equal"):
            verify(self.numpy.arange(4), self.numpy.zeros(4, dtype=int))

    def test_dtype_and_shape_are_part_of_it(self):
        with pytest.raises(AssertionError, match=r"float32\[4\] instead of float64\[4\]"):
            verify(self.numpy.ones(4, dtype="float32"), self.numpy.ones(4))
        with pytest.raises(AssertionError, match=r"float64\[4\] instead of float64\[2, 2\]"):
            verify(self.numpy.ones(4), self.numpy.ones((2, 2)))

    def test_nan_equals_nan(self):
        holed = self.numpy.array([1.0, NAN])
        verify(holed, holed.copy())

    def test_scalars_of_numpy(self):
        verify(self.numpy.float64(1.0), self.numpy.float64(1.0))
        with pytest.raises(AssertionError):
            verify(self.numpy.int64(1), self.numpy.int64(2))
        with pytest.raises(AssertionError, match="a list instead of a ndarray"):
            verify([1.0], self.numpy.ones(1))
