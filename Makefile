# Everything a person or CI runs. `make demo` and `make test` need Python 3.11+ and make, no more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USER_VENV := .venv-user
PACKAGED := $(shell find src harness workloads nemesis checkers clusters reports \
    -type f -not -name '*.pyc')
ROUNDS ?= 10
# Processes that tests share; each file goes to one of them, heavy ones first (tests/kept_times.py), and those that
# wait to the third (tests/shared_out.py): with three that compute, tests of real processes missed their bounds now
# and then on two cores. The long ones wait most of their time: one process of three computes.
PROCESSES ?= 3
PROCESSES_LONG ?= 3
SHARED := --dist loadfile --no-loadscope-reorder
QUICK := not docker and not real_server and not slow and not power
LONG := (docker or real_server or slow or draws) and not power
# How many of the inputs that tests draw at random: tests/draws.py.
SOME := HOLDFAST_DRAWS=some
SOAK ?= 10m

.PHONY: atlas corpus demo venv test test-tools test-tools-again test-quick uses test-long test-long-again docker-image lint check power soak rounds format clean reference site

# pip compiles what it installs on one core: half of the time of an installation. This takes all cores.
# A file that is no Python of this version is skipped.
compiled = -$(1)/bin/python -P -m compileall -qq -j 0 $(1)/lib

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	$(call compiled,$(VENV))
	touch $@

# What a user installs, of the files as they lie here, and no more.
$(USER_VENV)/ready: pyproject.toml constraints.txt README.md $(PACKAGED)
	$(PYTHON) -m venv --clear $(USER_VENV)
	$(USER_VENV)/bin/pip install --quiet --no-compile --constraint constraints.txt .
	$(call compiled,$(USER_VENV))
	touch $@

# Two runs in the simulator, one on local processes; no container engine and no root needed.
demo: $(USER_VENV)/ready
	$(USER_VENV)/bin/holdfast demo

venv: $(VENV)/ready

test: $(VENV)/ready
	$(BIN)/pytest -n $(PROCESSES) $(SHARED) -m "$(QUICK)" --ignore tests/house

# What a change can break first, within half a minute; FILES="..." instead of what git has as changed.
test-quick: $(VENV)/ready
	$(BIN)/python -m tests.quick $(FILES)

# Those of them whose files ask what the machine has. On one that has everything they are what `make test`
# can show beyond a machine that lacks it.
test-tools: $(VENV)/ready
	$(BIN)/pytest -n $(PROCESSES) $(SHARED) -m "$(QUICK)" $$($(BIN)/python -m tests.tools)

# Those of them that failed the last time.
test-tools-again: $(VENV)/ready
	$(BIN)/pytest -m "$(QUICK)" --last-failed --last-failed-no-failures none

# A few commands of the tool, on a machine that lacks most tools.
uses: $(VENV)/ready
	bash .ci/uses

# All others but the long proofs. Needs a container engine; make docker-image first.
test-long: $(VENV)/ready
	$(SOME) $(BIN)/pytest -n $(PROCESSES_LONG) $(SHARED) -m "$(LONG)"

# Those of them that failed the last time.
test-long-again: $(VENV)/ready
	$(SOME) $(BIN)/pytest -m "$(LONG)" --last-failed --last-failed-no-failures none

docker-image: $(VENV)/ready
	$(BIN)/python -m holdfast.clusters.backends.docker.image.build

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -m "$(QUICK)" tests/house

check: lint test

# The documentation as a site, in site/; a broken link or a page without an entry is an error.
site: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

# The long proof that checkers find what they must, and accuse nobody else.
power: $(VENV)/ready
	HOLDFAST_DRAWS=all $(BIN)/pytest -m "power or draws"

# The pages under docs/reference, from the catalogues and docstrings.
reference: $(VENV)/ready
	$(BIN)/python -m holdfast.docgen docs/reference

# Every lock service in containers, without faults and under those that it promises to survive: some
# six hours at ten minutes a run. Calling it again goes on where it was. The vote of `majority` breaks a
# promise by design, so the campaign's exit code is told and not obeyed: docs/systems.md.
soak: $(VENV)/ready
	-$(BIN)/holdfast campaign examples/soak.toml -j 1 --time $(SOAK)
	$(BIN)/holdfast matrix .holdfast/campaigns/soak

# The lock atlas: at most 68,000 simulated runs, two hours of one core; a round on real servers takes 20 minutes,
# and there are 300. Calling it again goes on where it was. Some locks break a promise by design.
atlas: $(VENV)/ready
	-$(BIN)/holdfast campaign examples/atlas-simulated.toml
	-$(BIN)/holdfast campaign examples/atlas-servers.toml
	$(BIN)/holdfast matrix .holdfast/campaigns/atlas-simulated .holdfast/campaigns/atlas-servers \
	    --counts docs/atlas-counts.json --markdown docs/atlas-cells.md

# Runs findings of the track record again on real servers, all of them (half an hour) or FINDINGS="...".
# One that no longer shows is an error; the page tells of the others all the same.
corpus: $(VENV)/ready
	$(BIN)/python -m tests.power.corpus $(FINDINGS); code=$$?; \
	$(BIN)/python -c 'from holdfast.catalogue.findings import page; print(page(), end=str())' \
	    > docs/findings/libraries.md; exit $$code

# The same tests again and again, until ROUNDS have passed or one fails.
rounds: $(VENV)/ready
	for round in $$(seq $(ROUNDS)); do \
	    echo "round $$round of $(ROUNDS)"; \
	    $(BIN)/pytest -q -x -m "not power" || exit 1; \
	done

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(USER_VENV) .mypy_cache .pytest_cache .ruff_cache build dist
