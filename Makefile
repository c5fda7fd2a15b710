# Two commands on a fresh machine: `make demo` and `make test`. Both build what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch
# torch stands in $(VENV); the others have environments of their own, apart from the user's.
FRAMEWORKS := tensorflow jax mxnet
ENVIRONMENTS := $(CURDIR)/.venv-frameworks
# With REQUIRE=1 a framework that cannot be installed is an error; else its tests skip.
REQUIRE :=
# What these test depends on time, so nothing may run beside them.
ALONE := tests/run tests/meters tests/integrations

.PHONY: demo test lint environments tests bench clean

demo: $(VENV)/.demo-ready
	@rm -rf demo && mkdir -p demo
	$(BIN)/trainload run mlp --layers --epochs 4 --batch-size 128 --out demo
	@$(BIN)/trainload report demo/mlp-* --html demo/report.html

test: $(VENV)/.test-ready lint environments tests

lint: $(VENV)/.test-ready
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

# Those in order are kept. All at once: one downloads while another unpacks.
environments: $(VENV)/.test-ready
	@rm -f $(VENV)/.lacks-*
	@for name in $(FRAMEWORKS); do \
		{ $(BIN)/trainload env create $$name --path $(ENVIRONMENTS) || touch $(VENV)/.lacks-$$name; } & \
	done; wait
	@for name in $(FRAMEWORKS); do \
		if [ -e $(VENV)/.lacks-$$name ]; then \
			echo "*** WITHOUT $$name: its tests $(if $(REQUIRE),are required,will skip); mend it: make environments," \
				"or: $(BIN)/trainload env create $$name --path $(ENVIRONMENTS) --python PYTHON ***" >&2; \
		fi; \
	done
	@test -z "$(REQUIRE)" || ! ls $(VENV)/.lacks-* >/dev/null 2>&1

tests: $(VENV)/.test-ready environments
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest -n 2 --dist loadfile $(ALONE:%=--ignore=%)
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest $(ALONE)

bench: $(VENV)/.test-ready environments
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/record_hour.py
	$(BIN)/python bench/meter_cost.py
	$(BIN)/python bench/step_probe.py
	$(BIN)/python bench/watch_cost.py
	$(BIN)/python bench/layers.py
	$(BIN)/python bench/layers_proportion.py
	$(BIN)/python bench/big_trace.py
	$(BIN)/python bench/sampler_overhead.py
	$(BIN)/python bench/kill_chaos.py
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/python bench/driver_cost.py
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/python bench/seven_cnns.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "trainload needs Python 3.11 or later; give one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(TORCH),report,nvidia]'
	@touch $@

$(VENV)/.test-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(TORCH),report,nvidia,dev]'
	@touch $@ $(VENV)/.demo-ready

clean:
	rm -rf $(VENV) .venv-frameworks demo build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
