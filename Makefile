# Every target creates and uses its own virtual environment in $(VENV); nothing outside it changes.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PINS := pyproject.toml constraints.txt

.PHONY: help try test nightly lint format types docs bench constraints clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

try: $(VENV)/.base ## install the package and solve a first instance
	$(BIN)/elastico-opt solve instances/data/two-gpus.json $(ARGS)

test: $(VENV)/.test ## install the test tools and run the quick tests
	$(BIN)/python -m pytest -n 2 $(ARGS)

nightly: $(VENV)/.test ## run the slow tests, with new random examples
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n 2 -m slow $(ARGS)

lint: $(VENV)/.test ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test ## repair style and format where that is safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.test ## check types
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the manual into build/docs; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

bench: $(VENV)/.base ## run the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

constraints: ## pin the newest versions that fit pyproject.toml (torch by hand, below)
	rm -rf build/pins
	$(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --quiet '.[test,docs]'
	{ echo '# Versions this project is tested with. Made by `make constraints`; do not edit by hand.'; \
	  echo '# torch is set in the Makefile: it is large, and only the extra "iac" needs it.'; \
	  { build/pins/bin/python -m pip freeze --exclude elastico-opt; echo 'torch==2.13.0'; } \
	    | LC_ALL=C sort -f; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) build dist *.egg-info

# A mark per set of tools keeps repeated calls quick. The package is installed in place, so only a
# change to the pins calls for a new install.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "elastico-opt needs \
	Python 3.11 or newer. Name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(PINS) | $(VENV)/bin/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test $(VENV)/.docs: $(VENV)/.%: $(PINS) | $(VENV)/bin/python
	$(INSTALL) --editable '.[$*]'
	@touch $@
