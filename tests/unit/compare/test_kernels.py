"""What is said of kernels that came, went or were specialised anew."""

from __future__ import annotations

import pytest

from pytest_gpuperf.compare.kernels import count_launches, family, kernel_changes


def test_nothing_is_said_of_equal_lists() -> None:
    assert kernel_changes(("a", "b"), ("a", "b")) == ""


def test_an_extra_copy_is_named() -> None:
    before = ("triton_poi_fused_gelu_0",)
    assert kernel_changes(before, ("direct_copy_kernel", *before)) == "kernels changed: +direct_copy_kernel"


def test_what_fell_off_the_tensor_cores_is_named() -> None:
    said = kernel_changes(("sm90_xmma_gemm_bf16bf16_tn",), ("sgemm_largek_lds64",))
    assert said == "kernels changed: −sm90_xmma_gemm_bf16bf16_tn, +sgemm_largek_lds64"


def test_a_fusion_that_was_lost_is_named() -> None:
    said = kernel_changes(("triton_poi_fused_add_gelu_mul_0",), ("add_kernel", "gelu_kernel", "mul_kernel"))
    assert said == "kernels changed: −triton_poi_fused_add_gelu_mul_0, +add_kernel, +gelu_kernel, +mul_kernel"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vectorized_elementwise_kernel<4, add>", "vectorized_elementwise_kernel<2, add>"),
        ("sm90_gemm_tile64x64", "sm90_gemm_tile128x64"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_1"),
    ],
)
def test_another_specialisation_is_told_from_another_kernel(old: str, new: str) -> None:
    assert family(old) == family(new)
    assert kernel_changes((old, "x"), ("x", new)) == f"kernels changed: {old} → {new}"


def test_order_is_the_last_thing_that_can_differ() -> None:
    assert kernel_changes(("a", "b"), ("b", "a")) == "the same kernels, launched in another order"


def test_many_are_bounded() -> None:
    said = kernel_changes((), tuple(f"kernel_{letter}" for letter in "abcdefgh"))
    assert said.count("+") == 4
    assert said.endswith("+5 more")
    assert len(kernel_changes(("x" * 500,), ("y" * 500,))) < 250


def test_long_lists_count_what_they_put_together() -> None:
    assert count_launches(("a ×300", "b", "others ×2")) == {"a": 300, "b": 1, "others": 2}
    assert kernel_changes(("a ×300",), ("a ×301",)) == "kernels changed: +a"
