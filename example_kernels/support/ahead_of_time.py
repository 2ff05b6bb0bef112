"""Compile kernels for Hopper without a GPU, and read their registers and spills.

`python -m example_kernels.support.ahead_of_time` compiles every shipped configuration and prints one JSON object a
line. It must run without TRITON_INTERPRET.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODULES = tuple(f"example_kernels.{name}.with_triton" for name in ("gelu", "softmax", "attention"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """One configuration a kernel is launched with: argument types, constants, options, and what divides by 16."""

    name: str
    kernel: Any
    signature: dict[str, str | tuple[str, ...]]
    constants: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    unaligned: frozenset[str] = frozenset()

    def attributes(self) -> dict[tuple[int, ...], list[list[Any]]]:
        """State divisibility as the run time would: pointers and integers, but those named in `unaligned`."""
        names = list(self.kernel.arg_names)
        divisible = [n for n in self.signature if n not in self.unaligned]
        paths = [path for n in divisible for path in _aligned_paths(names.index(n), self.signature[n])]
        return {path: [["tt.divisibility", 16]] for path in paths}


def _aligned_paths(index: int, kind: str | tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the paths of the pointers and integers in an argument that may be a tuple."""
    if isinstance(kind, tuple):
        yield from ((index, i) for i, member in enumerate(kind) if member[0] in "*i")
    elif kind[0] in "*i":
        yield (index,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one thread and one block of a compiled kernel take."""

    name: str
    registers: int
    spilled_bytes: int
    spills_beside_products: int
    """Accesses to spilled registers inside loops that multiply matrices and write no results: those that cost time."""
    shared_bytes: int


def compile_for_hopper(shipped: Shipped) -> Any:
    """Compile for compute capability 9.0; the result's `asm` holds every stage from IR to machine code."""
    import triton
    from triton.backends.compiler import GPUTarget

    types = {name: shipped.signature.get(name, "constexpr") for name in shipped.kernel.arg_names}
    constants = {(shipped.kernel.arg_names.index(n),): v for n, v in shipped.constants.items()}
    source = _source_type(shipped.kernel)(shipped.kernel, types, constants, shipped.attributes())
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=shipped.options)


def _source_type(kernel: Any) -> Any:
    if kernel.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def resources(shipped: Shipped) -> Resources:
    """Compile, and read the resource usage of the machine code."""
    compiled = compile_for_hopper(shipped)
    usage = _resource_usage(compiled.asm["cubin"])
    return Resources(
        name=shipped.name,
        registers=usage["REG"],
        spilled_bytes=usage["STACK"] + usage["LOCAL"],
        spills_beside_products=spills_beside_products(_disassembly(compiled.asm["cubin"])) if usage["STACK"] else 0,
        shared_bytes=compiled.metadata.shared,
    )


def _resource_usage(cubin: bytes) -> dict[str, int]:
    """Return what `cuobjdump --dump-resource-usage` says of the one kernel in `cubin`."""
    text = _inspect(cubin, "cuobjdump", "--dump-resource-usage")
    return {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}


def _disassembly(cubin: bytes) -> list[str]:
    return _inspect(cubin, "nvdisasm", "-c").splitlines()


def _inspect(cubin: bytes, tool: str, *options: str) -> str:
    """Return what a tool that Triton brings along prints about `cubin`."""
    import tempfile

    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([program, *options, file.name], capture_output=True, text=True, check=True).stdout


def spills_beside_products(lines: list[str]) -> int:
    """Count accesses to local memory in loops with matrix products but without bulk stores of results."""
    labels = {line.split(":")[0].strip(): at for at, line in enumerate(lines) if line.startswith(".L")}
    jumps = [(at, found[1]) for at, line in enumerate(lines) if (found := re.search(r"\bBRA `\((\.L\w+)\)", line))]
    loops = [range(labels[target], at) for at, target in jumps if labels.get(target, at) < at]
    inner = [loop for loop in loops if _has(lines, loop, "HGMMA") and not _has(lines, loop, "UTMASTG")]
    spills = [at for at, line in enumerate(lines) if re.search(r"\b(STL|LDL)\b", line)]
    return sum(any(at in loop for loop in inner) for at in spills)


def _has(lines: list[str], part: range, instruction: str) -> bool:
    return any(re.search(rf"\b{instruction}\b", lines[at]) for at in part)


def shipped_configurations() -> Iterator[Shipped]:
    """Yield what every operation's Triton module lists in `shipped()`."""
    for module in MODULES:
        yield from importlib.import_module(module).shipped()


def main() -> None:
    """Print the resources of every shipped configuration whose name contains the argument, if there is one."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for shipped in shipped_configurations():
        if wanted in shipped.name:
            found = resources(shipped)
            line = {name: getattr(found, name) for name in Resources.__slots__}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
