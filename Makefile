# Everything happens in .venv; each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TASK ?= all
METHOD ?= direct,random,majority

.PHONY: help run test test-all check format bench cases clean

help: ## Show this help.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

run: $(VENV)/.run ## Answer all 13 tasks with the laptop backbone and print the leaderboard.
	$(BIN)/expbench run --method $(METHOD) --task $(TASK)

test: $(VENV)/.dev ## Run the default tests.
	$(BIN)/python -m pytest -n 2 -q

test-all: $(VENV)/.dev ## Run every lane but the network: default, slow, real backbone.
	$(BIN)/python -m pytest -q -m "not network or model"

check: $(VENV)/.dev ## Lint, format and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## Rewrite the sources in the house format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	@touch $@ $(VENV)/.dev $(VENV)/.run

bench: $(VENV)/.bench ## Measure: start-up, code grading and generation beside a peer, memory.
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/code_grading.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/retrieval.py
	$(BIN)/python benchmarks/decoding.py

cases: $(VENV)/.dev ## Grade the public-report cases in $$EXPBENCH_CASES.
	$(BIN)/python tests/run_cases.py $(foreach a,math choice chem code ranking stats,$(EXPBENCH_CASES)/$(a).jsonl)

clean: ## Remove what the targets made; results stay.
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
