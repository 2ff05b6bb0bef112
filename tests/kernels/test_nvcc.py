"""Building CUDA C++: cached, atomic, and clear when it cannot be done."""

from __future__ import annotations

import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from example_kernels.gelu import with_cuda
from example_kernels.support import nvcc

ADD_ONE = 'extern "C" int add_one(int x) { return x + 1; }\n'
needs_nvcc = pytest.mark.skipif(nvcc.find_nvcc() is None, reason="nvcc was not found")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXAMPLE_KERNELS_CACHE", str(tmp_path / "cache"))
    nvcc.load_library.cache_clear()
    path = tmp_path / "add_one.cu"
    path.write_text(ADD_ONE)
    return path


@pytest.fixture
def fake_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that counts its runs and compiles with the host's; the tests need no CUDA."""
    home = tmp_path / "toolkit"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "nvcc"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo fake 1.0; exit 0; fi\n'
        f'echo run >> "{tmp_path}/runs"\n'
        'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out="$2"; fi; source="$1"; shift; done\n'
        'grep -q broken "$source" && { echo "error: broken on purpose"; exit 2; }\n'
        'grep -q rubbish "$source" && { cp "$source" "$out"; exit 0; }\n'
        'exec cc -x c++ -shared -fPIC -o "$out" "$source"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CUDA_HOME", str(home))
    return program


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def test_builds_once_and_loads(source, fake_nvcc, tmp_path):
    assert nvcc.load_library(source, "sm_90").add_one(41) == 42
    nvcc.load_library.cache_clear()
    assert nvcc.load_library(source, "sm_90").add_one(1) == 2
    assert runs(tmp_path) == 1


def test_builds_again_for_another_source_and_another_architecture(source, fake_nvcc, tmp_path):
    nvcc.load_library(source, "sm_90")
    nvcc.load_library(source, "sm_80")
    source.write_text(ADD_ONE + "// changed\n")
    nvcc.load_library.cache_clear()
    nvcc.load_library(source, "sm_90")
    assert runs(tmp_path) == 3


def test_concurrent_builds_compile_once(source, fake_nvcc, tmp_path):
    def build(_: int) -> int:
        return nvcc.load_library.__wrapped__(source, "sm_90").add_one(1)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(build, range(4))) == [2] * 4
    assert runs(tmp_path) == 1
    left = {path.suffix for path in nvcc.cache_directory().iterdir()}
    assert left == {".so", ".lock"}


def test_a_failed_compilation_shows_the_compilers_output(source, fake_nvcc):
    source.write_text("broken")
    with pytest.raises(nvcc.CudaBuildError, match="broken on purpose"):
        nvcc.load_library(source, "sm_90")
    assert not list(nvcc.cache_directory().glob("*.so"))


def test_without_a_compiler_the_error_says_so(source, monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    with pytest.raises(nvcc.CudaBuildError, match="CUDA_HOME"):
        nvcc.load_library(source, "sm_90")


def test_a_library_that_does_not_load_is_an_error(source, fake_nvcc):
    source.write_text("rubbish")
    with pytest.raises(nvcc.CudaBuildError, match="does not load"):
        nvcc.load_library(source, "sm_90")


@needs_nvcc
def test_gelu_kernels_compile_for_hopper_without_spills(tmp_path):
    command = nvcc.compile_command(nvcc.find_nvcc(), with_cuda.SOURCE, "sm_90", tmp_path / "gelu.so")
    done = subprocess.run([*command, "-Xptxas", "-v"], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    kernels = done.stderr.count("Compiling entry function")
    assert kernels == 24  # 3 dtypes × 2 forms × 2 directions × scalar or vector
    assert done.stderr.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == kernels
