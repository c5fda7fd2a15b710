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
# Files with tests that are marked as alone: what they assert depends on time.
ALONE = $(shell grep -rlE 'pytest\.mark\.alone' --include='test_*.py' tests)
# More than cores: tests wait for the processes that they start.
AT_ONCE := 3

# The oldest torch that is supported (`lowest` in the torch folder's offer.py), and the newest as a
# plain `pip install torch` brings it: a build for CUDA. Test packages are those of $(VENV).
WHEELS := oldest=2.6.0 newest=2.13.0
WHEEL_VENVS := $(CURDIR)/.venv-wheels
# A machine may be set up with wheels of its own; these are to be those that everyone gets.
PLAIN_PIP := env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null
WHEEL_PACKAGES := psutil typer rich polars plotly pytest pytest-timeout pytest-xdist hypothesis pillow
# Checks pages in the browser tests; they skip and say so where npm cannot get it.
AXE := 4.14.0
RAY := 2.60.0
RAY_VENV := $(CURDIR)/.venv-ray
EXPORT_VENV := $(CURDIR)/.venv-exports
DOCS_VENV := .venv-docs
EXPORTERS := kaleido==1.5.* mlflow-skinny==3.17.* tensorboard==2.21.* wandb==0.31.* prometheus-client==0.*
# Environments of trainers that people use, apart from each other: what pip brings into NAME, the
# framework whose environment it is laid over where that one is here already, and what is tested there.
INTEGRATION_VENVS := $(CURDIR)/.venv-integrations
INTEGRATIONS := trainers keras jax
INTEGRATION_PACKAGES := psutil pyyaml polars typer rich pytest pytest-timeout pytest-xdist
INTEGRATION_trainers := torch lightning==2.6.* transformers==5.* accelerate==1.* optuna==5.*
INTEGRATION_keras := tensorflow-cpu keras
INTEGRATION_jax := jax jaxlib
LAID_OVER_trainers := torch
LAID_OVER_keras := tensorflow
LAID_OVER_jax := jax
INTEGRATION_TESTS := tests/integrations/test_trainers.py
TESTED_trainers := -n 2 -k "not keras and not jax and not plain_loop" \
	tests/test_examples.py::test_a_script_as_people_write_them_tells_throughput_loss_and_phases
TESTED_keras := -k keras
TESTED_jax := -k jax
WHEEL_TESTS := tests/worker/frameworks/fake_step/test_op_trace.py tests/cli/test_estimate_verb.py \
	tests/api/estimating tests/api/test_in_process.py tests/worker/frameworks/test_worker_torch.py \
	tests/worker/frameworks/test_training_torch.py tests/worker/frameworks/test_layers_torch.py \
	tests/worker/frameworks/test_rests_torch.py

.PHONY: demo docs test test-long test-wheels test-ray test-exports test-integrations test-docs chaos lint environments tests bench clean

# Minutes that `make chaos` takes, shared among its parts; with FULL=1 it goes by counts instead.
MINUTES := 10
FULL :=

demo: $(VENV)/.demo-ready
	@rm -rf demo
	@$(BIN)/python examples/demo.py demo

test: $(VENV)/.test-ready lint environments tests

lint: $(VENV)/.test-ready
	$(BIN)/ruff check src tests bench docs/build examples/demo.py
	$(BIN)/ruff format --check src tests bench docs/build examples/demo.py
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
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest -n $(AT_ONCE) --dist loadfile -m 'not alone and not long'
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest -m 'alone and not long' $(ALONE)

# What takes minutes: all frameworks against each other, a real sshd and a real Slurm, kills, mutations.
test-long: $(VENV)/.test-ready environments
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest -n $(AT_ONCE) --dist loadfile -m 'long and not alone' \
		--ignore tests/docs
	TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest -m 'long and alone' $(ALONE)

# A wheel that cannot be had (no network, no wheel for this Python) is said and left out.
test-wheels:
	@failed=; lacking=; \
	for wheel in $(WHEELS); do \
		name=$${wheel%%=*}; version=$${wheel#*=}; home=$(WHEEL_VENVS)/$$name; \
		echo "=== torch $$version ($$name), as pip brings it ==="; \
		if [ ! -e $$home/.has-$$version ]; then \
			rm -rf $$home; \
			{ $(PYTHON) -m venv $$home && \
				$(PLAIN_PIP) $$home/bin/pip install --quiet --no-cache-dir torch==$$version \
					$$(grep '^numpy==' constraints.txt) && \
				$$home/bin/pip install --quiet -c constraints.txt $(WHEEL_PACKAGES) && \
				touch $$home/.has-$$version; } || \
				{ lacking="$$lacking $$version"; rm -rf $$home; continue; }; \
		fi; \
		$$home/bin/python -c 'import torch; print("torch", torch.__version__, "built for CUDA", torch.version.cuda)'; \
		TRAINLOAD_ENVS=$$home/envs PYTHONPATH=$(CURDIR)/src $$home/bin/python -m pytest -q -n 2 \
			--dist loadfile -p no:cacheprovider $(WHEEL_TESTS) || failed="$$failed $$version"; \
	done; \
	for version in $$lacking; do \
		echo "*** torch $$version COULD NOT BE INSTALLED: NOTHING WAS TESTED WITH IT ***" >&2; done; \
	for version in $$failed; do echo "*** tests failed with torch $$version ***" >&2; done; \
	test -z "$$failed"

# What exports write, read back by the real libraries; said and left out where they cannot be had.
test-exports:
	@if [ ! -e $(EXPORT_VENV)/.ready ]; then \
		rm -rf $(EXPORT_VENV); \
		{ $(PYTHON) -m venv $(EXPORT_VENV) && \
			$(EXPORT_VENV)/bin/pip install --quiet -c constraints.txt pyyaml scipy plotly $(EXPORTERS) $(WHEEL_PACKAGES) && \
			touch $(EXPORT_VENV)/.ready; } || rm -rf $(EXPORT_VENV); \
	fi; \
	if [ -e $(EXPORT_VENV)/.ready ]; then \
		PYTHONPATH=$(CURDIR)/src $(EXPORT_VENV)/bin/python -m pytest -q -p no:cacheprovider tests/api/test_exporting.py; \
	else \
		echo "*** THE LIBRARIES COULD NOT BE INSTALLED: NOTHING WAS TESTED WITH THEM ***" >&2; \
	fi

# Callbacks and scripts with the real trainers. What `make test` has installed is not fetched again; an
# environment that cannot be had is said and left out. Limits of time are those of a busy machine.
test-integrations: $(INTEGRATIONS:%=test-integration-%)

test-integration-%:
	@home=$(INTEGRATION_VENVS)/$*; \
	under=$$(TRAINLOAD_ENVS=$(ENVIRONMENTS) PYTHONPATH=$(CURDIR)/src $(BIN)/python \
		tests/integrations/laid_over.py $(LAID_OVER_$*) 2>/dev/null); \
	wanted="$${under:-nothing} $(INTEGRATION_$*)"; \
	if [ "$$(cat $$home/.ready 2>/dev/null)" != "$$wanted" ]; then \
		rm -rf $$home; \
		{ if [ -n "$$under" ]; then \
				$(BIN)/python -m venv --without-pip $$home && \
				echo "$$under" > "$$(echo $$home/lib/python*/site-packages)/under.pth"; \
			else $(PYTHON) -m venv $$home; fi && \
			$$home/bin/python -m pip install --quiet -c constraints.txt $(INTEGRATION_$*) $(INTEGRATION_PACKAGES) && \
			echo "$$wanted" > $$home/.ready; } || rm -rf $$home; \
	fi; \
	if [ -e $$home/.ready ]; then \
		echo "=== integrations: $* ==="; \
		TRAINLOAD_ENVS=$$home/envs TRAINLOAD_REQUIRES="$(INTEGRATION_$*)" PYTHONPATH=$(CURDIR)/src \
			$$home/bin/python -m pytest -q -p no:cacheprovider --timeout=1200 --durations=5 $(INTEGRATION_TESTS) $(TESTED_$*); \
	else \
		echo "*** THE LIBRARIES OF $* COULD NOT BE INSTALLED: NOTHING WAS TESTED WITH THEM ***" >&2; \
	fi

# Studies on a real Ray cluster of two nodes on loopback; said and left out where Ray cannot be had.
test-ray:
	@if [ ! -e $(RAY_VENV)/.has-$(RAY) ]; then \
		rm -rf $(RAY_VENV); \
		{ $(PYTHON) -m venv $(RAY_VENV) && \
			$(RAY_VENV)/bin/pip install --quiet -c constraints.txt ray==$(RAY) pyyaml scipy $(WHEEL_PACKAGES) && \
			touch $(RAY_VENV)/.has-$(RAY); } || rm -rf $(RAY_VENV); \
	fi; \
	if [ -e $(RAY_VENV)/.has-$(RAY) ]; then \
		PYTHONPATH=$(CURDIR)/src $(RAY_VENV)/bin/python -m pytest -q -p no:cacheprovider tests/study/test_on_ray.py; \
	else \
		echo "*** ray $(RAY) COULD NOT BE INSTALLED: NOTHING WAS TESTED WITH IT ***" >&2; \
	fi

# The documentation site, into site/: every link is checked, the reference is made from the code.
docs: $(DOCS_VENV)/.ready
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "$(CURDIR)/site/index.html (with its search: python3 -m http.server -d site)"

# Every command of the tutorial and the how-tos, those that take their time too.
test-docs: $(VENV)/.test-ready environments
	TRAINLOAD_DOCS=all TRAINLOAD_ENVS=$(ENVIRONMENTS) $(BIN)/pytest tests/docs

# Mutated directories, hostile scripts, kills, fuzzed options: exit 1 where one of them got through.
chaos: $(VENV)/.test-ready
	$(BIN)/python bench/chaos.py $(if $(FULL),--full,--minutes $(MINUTES))

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
	$(BIN)/python bench/chaos.py --part kills --minutes 10
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
	@{ cd $(VENV) && npm pack --silent axe-core@$(AXE) && \
		tar -xzf axe-core-$(AXE).tgz --strip-components=1 package/axe.min.js && \
		rm -f axe-core-$(AXE).tgz; } >/dev/null 2>&1 || \
		echo "*** WITHOUT axe-core (npm cannot get it): pages are not checked by it ***" >&2
	@touch $@ $(VENV)/.demo-ready

$(DOCS_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[docs,report]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-frameworks .venv-wheels .venv-ray .venv-exports .venv-integrations $(DOCS_VENV) demo site build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
