"""Every shipped configuration compiles for Hopper, without a GPU, and spills no register."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

from example_kernels.softmax import kernels as softmax_kernels
from example_kernels.softmax import with_triton as softmax_launches
from example_kernels.support.ahead_of_time import shipped_configurations, spills_beside_products

# The assembler saves one register across the stores at the end of a work item, outside the loops that multiply.
KNOWN_SPILLED_BYTES = {"attention hopper 128 dK dV": 8, "attention hopper 128 causal dK dV": 8}

# Parts that test processes compile side by side: the first time, before Triton has a cache, that takes a minute or two.
PARTS = ("gelu", "softmax", "attention hopper", "attention bf16", "attention fp32")
MODULE = "example_kernels.support.ahead_of_time"


def compiled_resources(wanted: str) -> list[dict]:
    """Compile in a process of its own, where kernels are compiled rather than interpreted."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", MODULE, wanted]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_are_unique():
    names = [shipped.name for shipped in shipped_configurations()]
    assert len(set(names)) == len(names)


def test_every_configuration_is_in_one_part():
    names = [shipped.name for shipped in shipped_configurations()]
    assert [name for name in names if sum(part in name for part in PARTS) != 1] == []


@pytest.mark.parametrize("part", PARTS)
def test_no_configuration_spills(part):
    expected = [shipped.name for shipped in shipped_configurations() if part in shipped.name]
    found = compiled_resources(part)
    assert [line["name"] for line in found] == expected
    spilled = {line["name"]: line["spilled_bytes"] for line in found if line["spilled_bytes"]}
    assert spilled == {name: size for name, size in KNOWN_SPILLED_BYTES.items() if part in name}
    assert [line["name"] for line in found if line["spills_beside_products"]] == []


@pytest.mark.parametrize("columns", [1, 16, 17, 700, 2048, 2049, 16384, 16385, 32768])
def test_every_width_of_softmax_is_in_the_gate(columns):
    rows, width, warps = softmax_launches.tile_shape(columns)
    found = [
        (shipped.kernel, shipped.constants, shipped.options, "columns" in shipped.unaligned)
        for shipped in softmax_launches.shipped()
    ]
    constants = {"ROWS": rows, "COLUMNS": width}
    for off_grid in (False, True):
        forward = (softmax_kernels.single_tile_kernel, constants, {"num_warps": warps}, off_grid)
        backward = (softmax_kernels.backward_kernel, constants, {"num_warps": 2 * warps}, off_grid)
        assert found.count(forward) == 2  # two dtypes
        assert found.count(backward) == (2 if columns <= softmax_launches.BACKWARD_TILE_COLUMNS else 0)


def test_every_kernel_is_in_the_gate():
    kernels = {shipped.kernel for shipped in shipped_configurations()}
    for module in ("gelu.with_triton", "softmax.kernels", "attention.forward_kernel", "attention.backward_kernels",
                   "attention.hopper_forward", "attention.hopper_backward"):  # fmt: skip
        found = vars(importlib.import_module(f"example_kernels.{module}"))
        defined = {x for name, x in found.items() if name.endswith("_kernel") and not name.startswith("_")}
        assert defined
        assert defined <= kernels


def test_a_spill_inside_a_loop_of_products_is_seen():
    outer, inner = [".L_x_1:", "  HGMMA.64x64x16 ;"], [".L_x_2:", "  HGMMA.64x64x16 ;", "  @P0 BRA `(.L_x_2) ;"]
    end = ["  LDL.LU R4, [R1] ;", "  UTMASTG.4D [UR32], [UR10] ;", "  STL [R1], R4 ;", "  @!P0 BRA `(.L_x_1) ;"]
    assert spills_beside_products(outer + inner + end) == 0
    assert spills_beside_products([*outer, inner[0], "  LDL R4, [R1] ;", *inner[1:], *end]) == 1
