# make demo   set up and run GRCL on the embedded benchmark
# make test   set up with the development tools; format, lint, types, tests
# make check  the long suites on top
# make bench  speed and memory against the limit and against others; on a machine that does nothing else
# make torture  100 kills and 3,000 mutated files; the figures go into docs/reliability.md

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test check bench torture format clean

demo: $(VENV)/.installed
	$(BIN)/grcl run mini

test: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -m "not long" -n 2

check: $(VENV)/.installed-dev
	$(BIN)/pytest -m long

bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench --keep

torture: $(VENV)/.installed-dev
	$(BIN)/python -m torture --write

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "grcl needs Python 3.10 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); try make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
