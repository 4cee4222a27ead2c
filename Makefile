# Everything a person or CI runs. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FIND_PYTHON := for p in $${PYTHON:-} python3 python3.13 python3.12 python3.11; do \
	if "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then echo "$$p"; exit 0; fi; \
	done; echo "No Python 3.11, 3.12 or 3.13 was found on PATH. Install one (Debian: apt-get install python3 python3-venv), or say which: make PYTHON=/path/to/python3.11 ..." >&2; exit 1

PYTEST := $(BIN)/python -m pytest
UNIT := tests/unit tests/property tests/cases

.PHONY: help setup demo test test-fast lint unit servers lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## the Python environment, from the lock file

$(READY): requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then rm -rf $(VENV); python="$$($(FIND_PYTHON))"; \
	echo "Python environment in $(VENV) with $$($$python --version), about a minute the first time"; \
	"$$python" -m venv $(VENV) || { rm -rf $(VENV); echo "python -m venv does not work; on Debian: apt-get install python3-venv" >&2; exit 1; }; fi
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --offline -e .
	@touch $@

demo: $(READY) ## a training job loses its node and goes on elsewhere, on a local fleet (KEEP=1 leaves it up)
	@$(BIN)/python -m lab.demo

test: lint unit servers ## everything that CI runs

test-fast: lint unit ## no server, under 90 seconds

lint: $(READY)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

unit: $(READY)
	@$(PYTEST) -q -n 2 $(UNIT)

servers: $(READY)
	@$(BIN)/python -m lab build
	@$(BIN)/python -m lab build kwok || echo "KWOK could not be built: its tests are skipped" >&2
	@$(PYTEST) tests --ignore tests/unit --ignore tests/property --ignore tests/cases

lock: ## resolve the lock files anew
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url requirements/bootstrap.in -o requirements/bootstrap.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url requirements/go.in -o requirements/go.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url pyproject.toml --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url pyproject.toml -c requirements/dev.txt -o requirements/runtime.txt

clean: ## the Python environment and caches of this checkout
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
