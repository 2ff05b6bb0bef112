# make bench   measure the example kernels, gate them against the stored baseline (saved first where there is none)
# make test    everything that has to hold before a change is merged
#
# Both make a virtual environment (.venv) with the pinned development environment and need only Python, pip and make.
# To run in an interpreter that already has what is needed, such as one with a CUDA build of torch, and to install
# nothing: make bench PYTHON=python3
# To make the virtual environment on top of such an interpreter: make bench VENV_ARGS=--system-site-packages

BASE_PYTHON ?= python3
VENV ?= .venv
VENV_ARGS ?=
STORAGE ?= .gpuperf
BENCH_ARGS ?= --gpuperf-max-time=0.3 --gpuperf-runs=8 --gpuperf-confirm-runs=6 --gpuperf-confirm-time=45

ifdef PYTHON
READY :=
TEST_ARGS ?=
# Where the plugin is not installed, pytest is told of it.
PLUGIN := $(shell $(PYTHON) -c 'from importlib.metadata import entry_points as e; print("" if [p for p in e(group="pytest11") if p.name == "gpuperf"] else "-p pytest_gpuperf.plugin")')
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
READY := $(VENV)/.ready
PYTHON := $(VENV)/bin/python
PLUGIN :=
TEST_ARGS ?= -n 2 --dist worksteal
endif

PYTEST := $(PYTHON) -m pytest $(PLUGIN)
BENCH := $(PYTEST) example_kernels -q --gpuperf-only --gpuperf-storage=$(STORAGE) $(BENCH_ARGS)

.PHONY: bench test lint types unit docs clean

# The folder of this machine's model: a baseline of another one is no baseline here.
MODEL = $(shell $(PYTHON) -c 'from pytest_gpuperf.measure.backends import backend_for; print(backend_for(None).machine().key)')

bench: $(READY)
	@test -e "$(STORAGE)/baselines/$(MODEL)/main.json" || $(BENCH) --gpuperf-save-baseline
	@$(BENCH) --gpuperf

# In this order so that the cheapest failure comes first; pytest's own summary is the last line.
test: lint types docs unit

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: $(READY)
	$(PYTHON) -m mypy
	$(PYTHON) -m basedpyright

docs: $(READY)
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html

unit: $(READY)
	$(PYTEST) -q $(TEST_ARGS)

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.ready: pyproject.toml requirements-dev.txt
	$(BASE_PYTHON) -m venv $(VENV_ARGS) $(VENV)
	$(VENV)/bin/python -m pip install -q -r requirements-dev.txt
	$(VENV)/bin/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@
