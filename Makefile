# Everything a person or CI runs. `make demo` and `make test` need Python 3.11+ and make, no more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-docker check power soak docker-image format clean

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

test: $(VENV)/ready
	$(BIN)/pytest -m "not docker and not power"

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not docker and not power"

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
