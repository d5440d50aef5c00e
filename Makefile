# What people type here. `make` alone prints the commands.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=

.PHONY: help setup fmt lint test test-kueue cluster controlplane soak sim bench local migrate migration docs lock clean helm-tools

help: ## Print the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tfjob-controller needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing what tfjob needs into $(VENV) (once, about half a minute)"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing what the tests need into $(VENV) (once, about a minute)"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime

setup: $(VENV)/.dev ## Install everything into .venv

local: $(VENV)/.runtime ## Run the examples on this machine: Postgres, API server, kubelet and controller
	@$(PY) -m controller local --examples || [ $$? -eq 1 ]
	@echo "One example fails on purpose, to show what is said then. To type tfjob without a path: . $(VENV)/bin/activate"

fmt: $(VENV)/.dev ## Format the code
	@$(PY) -m ruff format controller tests migrations bench
	@$(PY) -m ruff check --fix controller tests migrations bench

lint: $(VENV)/.dev ## Check style, types and who may import whom
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports

controlplane: $(VENV)/bin/python ## Build kube-apiserver, kube-controller-manager and etcd for the tests (needs Go; cached)
	@$(PY) tests/controlplane/build.py

test: lint ## Run all tests (builds the control plane when Go is there)
	@$(PY) tests/controlplane/build.py || [ $$? -eq 3 ]
	@$(PY) -m pytest $(PYTEST_ARGS)

cluster: $(VENV)/.dev controlplane ## Run only the tests against the real control plane
	@$(PY) -m pytest -m cluster $(PYTEST_ARGS)

test-kueue: $(VENV)/.dev controlplane ## Run the tests with the real Kueue (builds it when Go is there; cached)
	@$(PY) tests/cluster/kueue/build.py
	@TFJOB_KUEUE=1 $(PY) -m pytest -m kueue $(PYTEST_ARGS)

helm-tools: $(VENV)/.dev ## Build Helm and Compose's loader for the tests of deploy/ (needs Go; cached); `make test` uses them
	@$(PY) tests/deploy/build.py

soak: $(VENV)/.dev controlplane ## Run the long forms: thousands of examples, kills and outages
	@TFJOB_SOAK=1 $(PY) -m pytest -m soak $(PYTEST_ARGS)

sim: $(VENV)/.dev ## Play simulated worlds with faults: make sim SEEDS=1000
	@$(PY) -m tests.sim --seeds $(or $(SEEDS),100)

bench: $(VENV)/.dev ## Measure: fold, append, watch
	@for file in bench/*.py; do $(PY) $$file || exit 1; done

migrate: $(VENV)/.runtime ## Bring the database of TFJOB_DATABASE_URL to this code's schema
	@$(PY) -m controller db upgrade

migration: $(VENV)/.dev ## Begin a new migration: make migration NAME="add a column"
	@$(PY) -m alembic -c migrations/alembic.ini revision -m "$(NAME)"

docs: $(VENV)/.dev ## Make docs/STATE_MACHINE.md and the CRD from the code
	@$(PY) docs/make_state_machine.py --write
	@$(PY) deploy/crd/make.py --write
	@$(PY) deploy/make.py --write

lock: $(VENV)/.dev ## Renew the lock files from pyproject.toml (needs the uv wheel: pip install uv)
	@for extra in build dev; do \
	  if [ $$extra = dev ]; then out=requirements-dev.lock; else out=requirements.lock; fi; \
	  { echo "# Made by 'make lock' from pyproject.toml; hashes, no addresses."; \
	    $(PY) -m uv pip compile pyproject.toml --extra $$extra --generate-hashes --no-emit-index-url --universal \
	      --python-version 3.11 --no-header -q; } > $$out.new && mv $$out.new $$out; done

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
