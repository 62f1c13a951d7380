# `make help` lists the targets. Python packages are installed into .venv; tools built from source go to the user's cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpumpi
# Two workers per core: most tests spend half of their time waiting for servers, nodes or jobs.
WORKERS ?= $(shell expr 2 \* $$(nproc))

# Some container images set this variable. If it is set, each of the thousands of Python processes in the tests would compile all
# modules again, and pytest would rewrite all assertions again in each worker (docs/measurements/tests.md).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup tools demo demo-ec2 demo-heal test test-ami mission check format format-check lint types docs bench lock outdated conformance clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(STAMP) ## install the pinned Python packages into .venv

$(STAMP): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required. Choose one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "the venv module is missing. Install it, on Debian with: apt-get install python3-venv"; exit 1; }
	@echo "installing the pinned Python packages into $(VENV) (a minute or two)"
	@{ $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --no-deps --require-hashes -r requirements.lock || touch $(VENV)/.failed; } \
	  | awk -v of=$$(grep -c '==' requirements.lock) '/^ERROR|^error/ {print} /^Collecting/ {if (++n % 20 == 0 || n == of) print "  " n " of " of " packages fetched"} /^Installing/ {print "  unpacking them"} {fflush()}'
	@test ! -e $(VENV)/.failed || { rm $(VENV)/.failed; exit 1; }
	@touch $@

tools: setup ## build the tools that package registries do not offer as binaries (Pulumi, Kubernetes and its operators), once
	@$(BIN)/python -m localcloud.tools >/dev/null

demo: tools ## run the whole lifecycle of a cluster on a local AWS: preview, create, resize, refresh, destroy
	@$(BIN)/python scripts/cluster demo

demo-heal: tools ## break a GPU under a running job on a local AWS: the job finishes on another node, and the repaired node is verified
	@$(BIN)/python scripts/cluster demo --heal

demo-ec2: tools ## run the whole lifecycle of an EC2 cluster (without Kubernetes) on local hosts: build the AMI, join, train on four nodes, scale, destroy
	@$(BIN)/python scripts/cluster demo --ec2

test: tools ## run the tests in random order, except long ones, which test-ami and mission run
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not compile and not mission_only"

test-ami: tools ## run the AMI tests with Open MPI 4 and 5; the first run compiles both (ten minutes of CPU time)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/amis

mission: tools ## run the tests behind each row of docs/measurements/mission.md, print the table and write it there; compiles Open MPI like test-ami
	$(BIN)/python -m pytest -p tests.mission.plugin -m "mission or mission_only" --mission-table docs/measurements/mission.md -n $(WORKERS) --dist loadgroup

check: setup format lint types ## run the quick checks: format, lint, types, pure and program tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/pure tests/program

format: setup ## format the code
	@$(BIN)/ruff format --quiet .

format-check: setup ## fail if `make format` would change a file
	@$(BIN)/ruff format --check .

lint: setup ## run the linter
	@$(BIN)/ruff check .

# All clones share the cache: mypy compares the hashes of the sources (docs/measurements/tests.md).
types: setup ## check types in strict mode
	@MYPY_CACHE_DIR=$(CACHE)/mypy $(BIN)/mypy

docs: setup ## build the documentation as a site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in .local/site. To read it, run: $(BIN)/mkdocs serve"

bench: tools ## run the benchmarks whose figures are in docs/measurements
	$(BIN)/python -m bench.up
	$(BIN)/python -m bench.scale
	$(BIN)/python -m bench.start
	$(BIN)/python -m bench.kubernetes
	$(BIN)/python -m bench.objects
	$(BIN)/python -m bench.jobs
	$(BIN)/python -m bench.mpi_start
	$(BIN)/python -m bench.pod_lists
	$(BIN)/python -m bench.kubernetes_scale
	$(BIN)/python -m bench.controller_memory
	$(BIN)/python -m bench.trust
	$(BIN)/python -m bench.hosts
	$(BIN)/python -m bench.plan
	$(BIN)/python -m bench.heal

conformance: setup ## compare our programs with the official Pulumi CLI, language host and providers, if they are installed
	@$(BIN)/python -m localcloud.conformance

outdated: setup ## list every pinned version with the newest known version, its source and date; queries the configured package registries
	@$(BIN)/python -m localcloud.pins

lock: ## update requirements.lock from requirements*.txt (needs uv)
	uv pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 requirements.txt requirements-dev.txt -o requirements.lock
	uv pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 tests/audit/requirements.in -o tests/audit/requirements.lock
	uv pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 localcloud/tools/aws-cli/requirements.in -o localcloud/tools/aws-cli/requirements.lock
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --python-version 3.10 --build-constraints amis/frameworks/build-constraints.in amis/frameworks/chainermn.in -o amis/frameworks/chainermn.txt
	for set in tensorflow horovod boto3 jax; do uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --build-constraints amis/frameworks/build-constraints.in amis/frameworks/$$set.in -o amis/frameworks/$$set.txt; done

clean: ## stop the local cloud and remove everything created in this folder; the cache of built tools stays
	@test ! -x $(BIN)/python || $(BIN)/python scripts/cluster local stop
	@rm -rf $(VENV) .local .pytest_cache .mypy_cache .ruff_cache .hypothesis
