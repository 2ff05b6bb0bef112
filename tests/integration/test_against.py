"""`--gpuperf-against=REV`: both trees measured in fresh processes, on the scripted device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Seven runs a side are the fewest at which the rank test can reach its level.
AGAINST_HEAD = ("--gpuperf-against=HEAD", "--gpuperf-runs=7")
ONCE = ("--gpuperf-against=HEAD", "--gpuperf-runs=1")
SLOW_OP = "test_suite.py::test_op[op3]"

# The package that an installation serves: its own times, so that it shows whose code ran.
PACKAGE_SUITE = """
import pytest
from kernels import TIMES_US


@pytest.mark.parametrize("op", [f"op{number}" for number in range(3)])
def test_op(gpubench, op):
    from conftest import backend

    gpubench(lambda: backend.clock.advance_us(TIMES_US[op]))
"""
PACKAGE = "TIMES_US = {'op0': 100.0, 'op1': 100.0, 'op2': 100.0}\n"
SLOWER_PACKAGE = PACKAGE.replace("'op1': 100.0", "'op1': 200.0")
FINDER = """
import sys
from importlib.util import spec_from_file_location


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "kernels":
            return spec_from_file_location(name, {file!r})


def install(at):
    sys.meta_path.insert(at, Finder)
"""


class Repository:
    """A suite under version control."""

    def __init__(self, suite: Any) -> None:
        self.suite = suite
        self.path: Path = suite.path
        self.git("init", "--quiet", "--initial-branch=main")
        self.write(".gitignore", "__pycache__/\n.gpuperf/\nprocesses\n*.json.out\n/out/\n/.venv/\n")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run git and return what it says."""
        done = subprocess.run(["git", *arguments], cwd=cwd or self.path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        self.suite.write(name, text)

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")

    def compare(self, *arguments: str) -> pytest.RunResult:
        """Compare with the last commit in seven runs a side."""
        return self.suite.run(*AGAINST_HEAD, "--gpuperf-json=out/results.json", *arguments)

    def glance(self, *arguments: str) -> pytest.RunResult:
        """Compare with the last commit in one run a side, which gives no verdict on times."""
        return self.suite.run(*ONCE, "--gpuperf-json=out/results.json", *arguments)

    @property
    def verdicts(self) -> dict[str, str]:
        """The last comparison's verdicts."""
        return self.suite.verdicts_in("out/results.json")

    @property
    def reasons(self) -> dict[str, str]:
        """The last comparison's reasons."""
        outcomes = self.suite.json("out/results.json")["outcomes"]
        return {outcome["benchmark"]["node_id"]: outcome["decision"]["reason"] for outcome in outcomes}

    @property
    def ratios(self) -> dict[str, float]:
        """The last comparison's times in the working tree over those in the revision."""
        outcomes = self.suite.json("out/results.json")["outcomes"]
        return {outcome["benchmark"]["node_id"]: outcome["decision"]["ratio"] for outcome in outcomes}

    def worktrees(self) -> int:
        """How many trees git knows of."""
        return len(self.git("worktree", "list").splitlines())


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.org")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes put what is temporary."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def empty(new_suite: Any, temporary: Path) -> Iterator[Repository]:
    """A repository whose suite is not committed yet; however a test ends, no other tree may be left of it."""
    repository = Repository(new_suite)
    yield repository
    assert repository.worktrees() == 1
    assert list(temporary.glob("gpuperf-against-*")) == []


@pytest.fixture
def repository(empty: Repository) -> Repository:
    """A repository with the suite committed."""
    empty.commit()
    return empty


def test_a_slowdown_in_one_benchmark_fails_just_that(repository: Repository) -> None:
    repository.suite.times(op3=110.0)
    result = repository.compare()
    result.assert_outcomes(failed=1, passed=11)
    assert repository.verdicts == {
        node_id: "regressed" if node_id == SLOW_OP else "unchanged" for node_id in repository.verdicts
    }
    result.stdout.fnmatch_lines(
        [
            "slower by 10.* % * over 7 + 7 runs*",
            f"To repeat: pytest --gpuperf --gpuperf-against=HEAD '{SLOW_OP}'",
            "*gpuperf: Fake GPU, revision HEAD (*",
            "FAILED test_suite.py::test_op* - slower by 10*",
        ]
    )
    (outcome,) = [o for o in repository.suite.json("out/results.json")["outcomes"] if "op3" in str(o["benchmark"])]
    assert (outcome["decision"]["baseline_runs"], len(outcome["runs"])) == (7, 7)
    assert outcome["policy"]["interleaved"] is True


def test_unchanged_code_passes(repository: Repository) -> None:
    result = repository.compare()
    assert result.ret == 0
    assert set(repository.verdicts.values()) == {"unchanged"}
    assert not repository.suite.storage.joinpath("baselines").exists()


def test_both_trees_get_the_timer_that_the_sessions_own_run_got(repository: Repository) -> None:
    choosing = """

@pytest.fixture(autouse=True)
def only_the_session_itself_chooses_graphs(request):
    fresh = request.config.getoption("gpuperf_fresh_worker") or request.config.getoption("gpuperf_fork_server")
    backend.graph_below_us = 0.001 if fresh else 1000.0
"""
    repository.suite.add("conftest.py", choosing)
    repository.commit()
    repository.glance(SLOW_OP)
    (outcome,) = repository.suite.json("out/results.json")["outcomes"]
    assert outcome["identity"]["timer"] == "graph, scripted"
    assert repository.verdicts[SLOW_OP] != "incomparable", repository.reasons


def test_too_few_runs_to_fail_are_told_of(repository: Repository) -> None:
    repository.suite.times(other=200.0)
    result = repository.glance("-k", "other")
    assert result.ret == 0
    assert repository.reasons["test_suite.py::test_other"] == "only 1 run of each side: raise --gpuperf-runs"
    told = " ".join(line.strip() for line in result.outlines)
    assert "1 of each side are too few runs to call anything regressed: --gpuperf-runs=7 are enough." in told


@pytest.mark.slow
def test_an_older_revision(repository: Repository) -> None:
    repository.suite.times(other=50.0)
    repository.commit()
    assert repository.suite.run("--gpuperf-against=HEAD~1", "--gpuperf-runs=7", "--gpuperf-json=out/r.json").ret == 0
    verdicts = repository.suite.verdicts_in("out/r.json")
    assert verdicts["test_suite.py::test_other"] == "improved"
    assert list(verdicts.values()).count("unchanged") == 10


def test_verdicts_that_are_to_fail(repository: Repository) -> None:
    repository.suite.times(other=50.0)
    repository.suite.add("test_suite.py", "\ndef test_new(gpubench, work):\n    gpubench(work, 'new')\n")
    repository.compare("--gpuperf-strict").assert_outcomes(failed=1, passed=12)
    assert repository.verdicts["test_suite.py::test_other"] == "improved"
    assert repository.verdicts["test_suite.py::test_new"] == "new"
    repository.glance("-k", "test_new", "--gpuperf-fail-on=new,regressed").assert_outcomes(failed=1, deselected=12)


def test_what_is_staged_is_neither_lost_nor_the_other_side(repository: Repository) -> None:
    repository.suite.times(op3=200.0)
    repository.git("add", "times.json")
    before = repository.git("status", "--porcelain")
    repository.compare("-k", "op3 or op4").assert_outcomes(failed=1, passed=1, deselected=10)
    assert repository.git("status", "--porcelain") == before == "M  times.json"


class TestWhatTheRevisionLacks:
    def test_a_test(self, repository: Repository) -> None:
        repository.suite.add("test_suite.py", "\ndef test_new(gpubench, work):\n    gpubench(work, 'new')\n")
        assert repository.glance("test_suite.py::test_new", "test_suite.py::test_other").ret == 0
        assert repository.verdicts == {
            "test_suite.py::test_new": "new",
            "test_suite.py::test_other": "inconclusive",
        }

    def test_a_file(self, repository: Repository) -> None:
        shutil.copy(repository.path / "test_suite.py", repository.path / "test_more.py")
        assert repository.glance("test_more.py::test_other", "test_suite.py::test_other").ret == 0
        assert repository.verdicts == {
            "test_more.py::test_other": "new",
            "test_suite.py::test_other": "inconclusive",
        }

    def test_every_file(self, repository: Repository) -> None:
        shutil.copy(repository.path / "test_suite.py", repository.path / "test_more.py")
        assert repository.glance("test_more.py").ret == 0
        assert set(repository.verdicts.values()) == {"new"}

    def test_the_ini_file(self, empty: Repository) -> None:
        (empty.path / "pytest.ini").unlink()
        empty.write("folder/test_one.py", "def test_one(gpubench, work):\n    gpubench(work, 'one')\n")
        empty.commit()
        empty.write("pytest.ini", "[pytest]\n")
        assert empty.glance("folder").ret == 0
        assert empty.verdicts == {"folder/test_one.py::test_one": "inconclusive"}

    def test_the_folder_it_runs_in(self, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
        (repository.path / "later").mkdir()
        monkeypatch.chdir(repository.path / "later")
        assert (
            repository.suite.run(*ONCE, "../test_suite.py::test_other", "--gpuperf-json=../out/results.json").ret == 0
        )
        assert repository.verdicts == {"test_suite.py::test_other": "inconclusive"}


class TestWhatTheRevisionCannotRun:
    """Never silently `new`: it exists there, and nothing can be said of it."""

    def test_a_file_that_cannot_be_imported(self, repository: Repository) -> None:
        repository.write("test_broken.py", "import absent_module\n")
        repository.commit()
        shutil.copy(repository.path / "test_suite.py", repository.path / "test_broken.py")
        assert repository.glance().ret == 0
        assert {node_id.partition("::")[0]: verdict for node_id, verdict in repository.verdicts.items()} == {
            "test_broken.py": "incomparable",
            "test_suite.py": "inconclusive",
        }
        assert "No module named 'absent_module'" in repository.reasons["test_broken.py::test_other"]

    @pytest.mark.slow
    def test_a_test_that_fails_there(self, repository: Repository) -> None:
        self._change_after_commit(repository, "assert False, 'known to be wrong'")
        assert repository.verdicts["test_suite.py::test_other"] == "incomparable"
        assert "known to be wrong" in repository.reasons["test_suite.py::test_other"]

    def test_a_test_that_kills_its_process_there(self, repository: Repository) -> None:
        self._change_after_commit(repository, "import os; os._exit(3)")
        assert repository.verdicts["test_suite.py::test_other"] == "incomparable"
        assert "ended with exit code 3" in repository.reasons["test_suite.py::test_other"]
        assert repository.verdicts[SLOW_OP] == "inconclusive"

    def test_everything(self, repository: Repository) -> None:
        good = (repository.path / "conftest.py").read_text()
        repository.write("conftest.py", "raise RuntimeError('no suite today')\n")
        repository.commit()
        repository.write("conftest.py", good)
        result = repository.glance()
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*--gpuperf-against=HEAD: its benchmarks cannot be run: *", "*no suite today*"])

    @staticmethod
    def _change_after_commit(repository: Repository, statement: str) -> None:
        good = (repository.path / "test_suite.py").read_text()
        repository.suite.replace(
            "test_suite.py", "def test_other(gpubench, work):", f"def test_other():\n    {statement}"
        )
        repository.suite.replace("test_suite.py", '\n    assert gpubench(work, "other") == "other"', "")
        repository.commit()
        repository.write("test_suite.py", good)
        assert repository.glance("-k", "other or op3").ret == 0


class TestWhatCannotBeComparedWith:
    @pytest.mark.parametrize(
        ("revision", "message"),
        [
            ("no-such-branch", "*--gpuperf-against=no-such-branch: there is no such revision here; see `git log`*"),
            ("HEAD~9", "*--gpuperf-against=HEAD~9: there is no such revision here*"),
            ("-n", "*'-n' is no revision*"),
            ("", "*--gpuperf-against*"),
        ],
    )
    def test_no_revision(self, repository: Repository, revision: str, message: str) -> None:
        result = repository.suite.run(f"--gpuperf-against={revision}")
        assert result.ret == 4
        result.stderr.fnmatch_lines([message])

    def test_no_repository(self, new_suite: Any) -> None:
        result = new_suite.run("--gpuperf-against=HEAD")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*--gpuperf-against=HEAD: * is in no git repository*"])

    @pytest.mark.slow
    def test_a_shallow_clone(self, repository: Repository, tmp_path: Path, pytester: pytest.Pytester) -> None:
        repository.commit()
        repository.git("clone", "--quiet", "--depth=1", f"file://{repository.path}", str(tmp_path / "clone"))
        result = pytester.runpytest_subprocess(f"--rootdir={tmp_path / 'clone'}", str(tmp_path / "clone"), *ONCE, "-q")
        assert result.ret == 0
        deeper = [str(tmp_path / "clone"), "--gpuperf-against=HEAD~1"]
        result = pytester.runpytest_subprocess(f"--rootdir={tmp_path / 'clone'}", *deeper)
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*there is no such revision here; this clone is shallow*--unshallow*"])

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("--gpuperf-save-baseline", "*--gpuperf-against: compares two revisions and stores no baseline*"),
            ("--gpuperf-extend-baseline", "*--gpuperf-against: compares two revisions and stores no baseline*"),
            ("-n2", "*--gpuperf-against: both sides need the device to themselves; leave out -n*"),
        ],
    )
    def test_beside_other_options(self, repository: Repository, option: str, message: str) -> None:
        result = repository.suite.run(*ONCE, option)
        assert result.ret == 4
        result.stderr.fnmatch_lines([message])


class TestWhereItRuns:
    def test_in_a_subdirectory(self, empty: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
        text = (empty.path / "test_suite.py").read_text()
        empty.write("perf/test_suite.py", text)
        empty.commit()
        empty.suite.times(op3=200.0)
        monkeypatch.chdir(empty.path / "perf")
        empty.suite.run(*ONCE, "test_suite.py", "-k", "op3 or op4", f"--gpuperf-json={empty.path}/out/results.json")
        assert empty.ratios == {
            "perf/test_suite.py::test_op[op3]": pytest.approx(2, rel=0.05),
            "perf/test_suite.py::test_op[op4]": pytest.approx(1, rel=0.05),
        }

    @pytest.mark.slow
    def test_outside_of_the_repository(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(repository.path.parent)
        relative = f"{repository.path.name}/test_suite.py"
        repository.suite.times(op3=200.0)
        json = f"--gpuperf-json={repository.path}/out/results.json"
        repository.suite.run(*ONCE, relative, "-k", "op3", json)
        assert repository.ratios == {SLOW_OP: pytest.approx(2, rel=0.05)}

    @pytest.mark.parametrize(
        "arguments",
        [
            ["{top}/test_suite.py::test_other"],
            pytest.param(["--rootdir={top}", "{top}"], marks=pytest.mark.slow),
            ["--rootdir", "{top}", "-c", "{top}/pytest.ini", "test_suite.py"],
            pytest.param(["-c{top}/pytest.ini", "--confcutdir={top}"], marks=pytest.mark.slow),
            pytest.param(["-o", "pythonpath={top}"], marks=pytest.mark.slow),
            pytest.param(["--", "test_suite.py::test_other"], marks=pytest.mark.slow),
        ],
        ids=" ".join,
    )
    def test_paths_in_the_arguments(self, repository: Repository, arguments: list[str]) -> None:
        repository.suite.times(other=200.0)
        given = [argument.format(top=repository.path) for argument in arguments]
        repository.suite.run("-k", "other", *ONCE, f"--gpuperf-json={repository.path}/out/results.json", *given)
        assert repository.ratios == {"test_suite.py::test_other": pytest.approx(2, rel=0.05)}

    @pytest.mark.slow
    def test_through_a_link(self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "link").symlink_to(repository.path)
        monkeypatch.chdir(tmp_path / "link")
        repository.suite.times(other=200.0)
        repository.glance(str(tmp_path / "link" / "test_suite.py"), "-k", "other")
        assert repository.ratios == {"test_suite.py::test_other": pytest.approx(2, rel=0.05)}


class TestSubmodules:
    @pytest.fixture
    def library(self, repository: Repository, tmp_path: Path) -> Path:
        library = tmp_path / "library"
        library.mkdir()
        (library / "kernels.py").write_text(PACKAGE)
        repository.git("init", "--quiet", cwd=library)
        repository.git("add", "--all", cwd=library)
        repository.git("commit", "--quiet", "--message=kernels", cwd=library)
        repository.write("pytest.ini", "[pytest]\npythonpath = library\n")
        repository.write("test_suite.py", PACKAGE_SUITE)
        allowed = ("-c", "protocol.file.allow=always")
        repository.git(*allowed, "submodule", "--quiet", "add", str(library), "library")
        repository.commit()
        return library

    def test_one_that_is_there(self, repository: Repository, library: Path) -> None:
        # Its origin may be gone: the clone in the repository is enough.
        shutil.rmtree(library)
        repository.write("library/kernels.py", SLOWER_PACKAGE)
        assert repository.glance().ret == 0
        assert list(repository.ratios.values()) == [pytest.approx(ratio, rel=0.05) for ratio in (1, 2, 1)]

    def test_one_that_cannot_be_reached(self, repository: Repository, library: Path) -> None:
        shutil.rmtree(library)
        shutil.rmtree(repository.path / ".git" / "modules")
        shutil.rmtree(repository.path / "library" / ".git", ignore_errors=True)
        (repository.path / "library" / ".git").unlink(missing_ok=True)
        result = repository.glance()
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*--gpuperf-against=HEAD: its submodule library cannot be checked out: *"])

    @pytest.mark.slow
    def test_one_that_the_working_tree_leaves_out(self, repository: Repository, library: Path) -> None:
        repository.write("kernels.py", PACKAGE)
        repository.write("pytest.ini", "[pytest]\npythonpath = .\n")
        repository.commit()
        repository.git("submodule", "--quiet", "deinit", "--force", "library")
        shutil.rmtree(repository.path / ".git" / "modules")
        shutil.rmtree(library)
        assert repository.glance().ret == 0


class TestInstallations:
    """Whose code runs where the package under test is installed, in a virtual environment of its own."""

    @pytest.fixture
    def package(self, repository: Repository) -> Repository:
        repository.write("src/kernels/__init__.py", PACKAGE)
        repository.write("test_suite.py", PACKAGE_SUITE)
        repository.commit()
        repository.write("src/kernels/__init__.py", SLOWER_PACKAGE)
        return repository

    @pytest.fixture
    def site(self, package: Repository) -> Path:
        """The folder of installed packages of an environment that lies in the working tree, as many do."""
        venv = package.path / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        (site,) = venv.glob("lib/python*/site-packages")
        ours = Path(pytest.__file__).parents[1]
        plugin = Path(__file__).parents[2]
        (site / "tools.pth").write_text(f"{ours}\n{plugin}\n")
        return site

    @pytest.fixture
    def pytest_there(self, package: Repository, site: Path, pytester: pytest.Pytester) -> Callable[..., Any]:
        """Run the `pytest` script of that environment, which leaves the import path as it is."""
        script = site.parents[2] / "bin" / "pytest"
        start = f"#!{site.parents[2] / 'bin' / 'python'}\nimport sys, pytest\nsys.exit(pytest.main())\n"
        script.write_text(start)
        script.chmod(0o755)
        quiet = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        return lambda *arguments: pytester.run(str(script), *quiet, *arguments)

    @pytest.mark.slow
    def test_editable_by_path(self, site: Path, package: Repository, pytest_there: Callable[..., Any]) -> None:
        (site / "kernels.pth").write_text(f"{package.path / 'src'}\n")
        assert pytest_there(*ONCE, "--gpuperf-json=out/results.json").ret == 0
        assert list(package.ratios.values()) == [pytest.approx(ratio, rel=0.05) for ratio in (1, 2, 1)]

    def test_editable_by_finder(self, site: Path, package: Repository, pytest_there: Callable[..., Any]) -> None:
        self._install_finder(site, package, at=99)
        assert pytest_there(*ONCE, "--gpuperf-json=out/results.json").ret == 0
        assert list(package.ratios.values()) == [pytest.approx(ratio, rel=0.05) for ratio in (1, 2, 1)]

    def test_a_finder_that_comes_first(self, site: Path, package: Repository, pytest_there: Callable[..., Any]) -> None:
        self._install_finder(site, package, at=0)
        result = pytest_there(*ONCE)
        assert result.ret == 4
        file = package.path / "src/kernels/__init__.py"
        result.stderr.fnmatch_lines([f"*the processes of the revision did not run its own code: kernels from {file}.*"])

    def test_a_copy(self, site: Path, package: Repository, pytest_there: Callable[..., Any]) -> None:
        shutil.copytree(package.path / "src" / "kernels", site / "kernels")
        result = pytest_there(*ONCE)
        assert result.ret == 4
        file = site / "kernels/__init__.py"
        result.stderr.fnmatch_lines([f"*the processes of the revision did not run its own code: kernels from {file}.*"])

    @pytest.mark.slow
    def test_a_copy_that_the_tree_comes_before(
        self, site: Path, package: Repository, pytest_there: Callable[..., Any]
    ) -> None:
        shutil.copytree(package.path / "src" / "kernels", site / "kernels")
        package.write("pytest.ini", "[pytest]\npythonpath = src\n")
        package.git("add", "pytest.ini")
        package.git("commit", "--quiet", "--message=import from the tree")
        assert pytest_there(*ONCE, "--gpuperf-json=out/results.json").ret == 0
        assert list(package.ratios.values()) == [pytest.approx(ratio, rel=0.05) for ratio in (1, 2, 1)]

    def test_a_built_extension(self, package: Repository) -> None:
        dynload = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
        extension = next((file for file in sorted(dynload.glob("_*.so"))), None)
        if extension is None:
            pytest.skip("this Python has no extension module to copy")
        name = extension.name.partition(".")[0]
        package.write("pytest.ini", "[pytest]\npythonpath = src\n")
        package.write(".gitignore", (package.path / ".gitignore").read_text() + "*.so\n")
        package.write("src/kernels/__init__.py", f"from kernels import {name}\n{PACKAGE}")
        package.commit()
        shutil.copy(extension, package.path / "src" / "kernels" / extension.name)
        result = package.glance()
        assert result.ret == 4
        result.stderr.fnmatch_lines([f"*compiled modules that a checkout of it lacks: kernels.{name} from *"])

    @staticmethod
    def _install_finder(site: Path, package: Repository, at: int) -> None:
        file = package.path / "src" / "kernels" / "__init__.py"
        (site / "kernels_finder.py").write_text(FINDER.format(file=str(file)))
        (site / "kernels.pth").write_text(f"import kernels_finder; kernels_finder.install({at})\n")


class TestWhatEndsItEarly:
    def test_a_test_that_fails_in_every_fresh_process(self, repository: Repository) -> None:
        repository.suite.add("conftest.py", "\nFIRST = os.environ.setdefault('FIRST', str(os.getpid()))\n")
        repository.commit()
        repository.suite.replace(
            "test_suite.py",
            'assert gpubench(work, "other") == "other"',
            "gpubench(work, 'x')\n    import os\n    assert os.environ['FIRST'] == str(os.getpid()), 'not the first'",
        )
        result = repository.suite.process(*ONCE, "-k", "other or op3")
        result.assert_outcomes(failed=1, passed=1, deselected=10)
        result.stdout.fnmatch_lines(
            ["test_suite.py::test_other could not be confirmed: the test failed in a fresh process: *"]
        )

    def test_a_test_that_kills_its_fresh_processes(self, repository: Repository) -> None:
        repository.suite.add("conftest.py", "\nFIRST = os.environ.setdefault('FIRST', str(os.getpid()))\n")
        repository.commit()
        repository.suite.replace(
            "test_suite.py",
            'assert gpubench(work, "other") == "other"',
            "gpubench(work, 'x')\n    import os\n    os.environ['FIRST'] == str(os.getpid()) or os._exit(3)",
        )
        result = repository.suite.process(*ONCE, "-k", "other or op3")
        result.assert_outcomes(failed=1, passed=1, deselected=10)

    def test_an_interrupt(self, repository: Repository) -> None:
        # What starts the tests in the background may have had interrupts ignored.
        repository.suite.add(
            "conftest.py",
            "\nimport signal\nFIRST = os.environ.setdefault('FIRST', str(os.getpid()))\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n",
        )
        repository.suite.replace(
            "test_suite.py",
            'assert gpubench(work, "other") == "other"',
            "gpubench(work, 'x')\n    import os, signal\n"
            "    if os.environ['FIRST'] != str(os.getpid()):\n"
            "        os.kill(int(os.environ['FIRST']), signal.SIGINT)",
        )
        repository.commit()
        result = repository.suite.process(*ONCE, "-k", "other")
        assert result.ret == 2
        result.stdout.fnmatch_lines(["*The session ended before 1 unsettled test was reported; nothing was stored.*"])

    def test_the_first_failure(self, repository: Repository) -> None:
        repository.suite.add("test_suite.py", "\ndef test_wrong():\n    assert False\n")
        result = repository.compare("-x")
        result.assert_outcomes(failed=1, passed=12)
        assert set(repository.verdicts.values()) == {"incomparable"}
        assert "stopped before both were compared" in repository.reasons[SLOW_OP]

    def test_no_benchmarks(self, repository: Repository) -> None:
        assert repository.glance("-k", "no_benchmark").ret == 0


def test_an_abandoned_tree_is_removed(repository: Repository, temporary: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    abandoned = temporary / f"gpuperf-against-{ended.pid}-abc" / repository.path.name
    repository.git("worktree", "add", "--quiet", "--detach", str(abandoned), "HEAD")
    assert repository.glance("-k", "other").ret == 0
    assert not abandoned.exists()


def test_the_record_says_what_was_compared(repository: Repository) -> None:
    repository.glance("-k", "other")
    record = json.loads((repository.path / "out" / "results.json").read_text())
    assert record["settings"]["against"] == "HEAD"
