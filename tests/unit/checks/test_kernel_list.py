from __future__ import annotations

from pytest_gpuperf.checks.kernel_list import LIST_LIMIT, NAME_LIMIT_CHARACTERS, short_name, stored_names
from pytest_gpuperf.checks.launches import Launch
from pytest_gpuperf.compare.kernels import count_launches

LONG = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#1}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >"
    "(int, at::native::GeluCUDAKernelImpl, std::array<char*, 2ul>)"
)


def launches(*names):
    return [Launch(name=name) for name in names]


def test_short_names_stay():
    assert stored_names(launches("triton_poi_fused_add_0", "Memset (Device)")) == (
        "triton_poi_fused_add_0",
        "Memset (Device)",
    )


def test_long_names_are_bounded_and_told_apart():
    other = LONG.replace("Gelu", "Relu")
    assert len(short_name(LONG)) <= NAME_LIMIT_CHARACTERS
    assert short_name(LONG).startswith("vectorized_elementwise_kernel<4, GeluCUDAKernelImpl")
    assert short_name(LONG) != short_name(other) != short_name(LONG.replace("<4,", "<2,"))


def test_a_copy_says_which_way():
    assert short_name("Memcpy HtoD (Pageable -> Device)") == "Memcpy HtoD (Pageable -> Device)"
    assert short_name("Memcpy DtoD (Device -> Device)") == "Memcpy DtoD (Device -> Device)"


def test_long_lists_are_bounded_and_lose_no_launch():
    many = [f"kernel_{number % 400}" for number in range(3000)]
    stored = stored_names(launches(*many))
    assert len(stored) == LIST_LIMIT
    assert count_launches(stored).total() == 3000
