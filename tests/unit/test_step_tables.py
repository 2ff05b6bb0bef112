"""What benchmarks/step_tables.py makes of a training step's kernels."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def tables(script_module):
    return script_module("step_tables")


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(...)", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8", True),
        ("ampere_sgemm_128x64_nn", True),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(...)", True),
        ("void gemv2T_kernel_val<int, int, float>(...)", True),
        ("void at::native::vectorized_elementwise_kernel<4, AddFunctor>(...)", False),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>(...)", False),
        ("gelu_forward_kernel", False),
        ("triton_poi_fused_gelu_0", False),
        ("Memset (Device)", False),
    ],
)
def test_products_are_known_by_the_libraries_names(tables, name, product):
    assert tables.Kernel(name, 1, 1.0).is_product == product


def step(tables, *, wall_us=1000.0, model="m", item=False, implementation="eager"):
    kernels = (tables.Kernel("sgemm", 3, 300.0), tables.Kernel("gelu", 2, 75.0), tables.Kernel("add | mul", 4, 25.0))
    return tables.StepRow(model=model, implementation=implementation, item=item, wall_us=wall_us, kernels=kernels)


def test_shares_are_of_the_gpus_time_and_idling_of_the_steps(tables):
    row = step(tables)
    assert (row.gpu_us, row.products_share, row.idle_share) == (400.0, 0.75, 0.6)
    assert step(tables, wall_us=390.0).idle_share == 0.0


def test_a_row_as_text(tables):
    assert step(tables, item=True).cells() == {
        "model": "m",
        "implementation": "eager",
        "loss read": "every step",
        "step, us": "1000",
        "kernels": "9",
        "on the GPU, us": "400",
        "of that products": "75%",
        "GPU idle": "60%",
    }


def test_the_longest_kernels_come_first_and_break_no_table(tables):
    lines = tables.longest(step(tables), count=2).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["sgemm", "gelu"]
    assert "75.0%" in lines[2]
    assert all(line.count("|") == 4 for line in tables.longest(step(tables), count=3).splitlines())


def test_all_steps_and_the_first_ones_kernels_of_every_model(tables):
    rows = [step(tables), step(tables, implementation="compiled"), step(tables, model="n", implementation="compiled")]
    text = tables.markdown({"device": "X"}, rows)
    assert text.count("| m ") == 2
    assert text.count("## Longest kernels") == 2
    assert "## Longest kernels: m, eager" in text
    assert "## Longest kernels: n, compiled" in text
