# Everything happens in .venv, which make builds from constraints.txt when one of them has changed.

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

BIN  := .venv/bin
CODE := $(wildcard a2a_server gateway tests examples proto/generate.py)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test gen lint fmt types arch bench pins clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/.run ## serve (ARGS="--help" shows how)
	$(BIN)/a2a-server serve $(ARGS)

test: .venv/.dev ## run the tests and measure their coverage (ARGS="-k name")
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --cov --cov-report= --cov-fail-under=0 $(ARGS)
	$(BIN)/coverage report
	$(BIN)/coverage report --include='a2a_server/domain/*' --fail-under=100

gen: .venv/.dev ## make generated/ from proto/
	$(BIN)/python proto/generate.py

lint: types arch ## check style, types, layers, deployment and that generated/ is fresh
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python proto/generate.py --check
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml deploy/*.yml

fmt: .venv/.dev ## format, and fix what can be fixed
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

types: .venv/.dev ## check types
	$(BIN)/mypy $(CODE)

arch: .venv/.dev ## check which package imports which
	$(BIN)/lint-imports

bench: .venv/.dev ## measure (ARGS chooses what)
	$(BIN)/python -m tests.bench $(ARGS)

pins: ## bring constraints.txt up to date, from a fresh environment
	$(PYTHON) -m venv --clear build/pins
	build/pins/bin/python -m pip install --quiet --upgrade pip
	build/pins/bin/python -m pip install --quiet --editable '.[dev]'
	{ sed -n '/^#/p' constraints.txt; build/pins/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/pins

clean: ## remove what make has made, except generated/
	rm -rf .venv build dist htmlcov .coverage .coverage.* .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'a2a-server needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# Holds all that .run asks for, so that `make run` need not install again.
.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch .venv/.run $@
