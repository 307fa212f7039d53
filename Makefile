# Every target makes its own environment (.venv) from pyproject.toml; a clean clone needs Python 3.11+ and, for Spark, Java 17+.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FARM := build/typing/aggloom
CASES := ../shared/cases
ROOMS := codegen runtime generated
# The versions that the tests were last green with, for the Python that has them; another takes the newest.
CONSTRAINTS = .ci/constraints-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt
# One more than there are processors: a worker that waits for a batch of Spark leaves a quarter of its own unused.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Tests start processes by the hundred: without files of bytecode each compiles all modules anew, for two seconds.
unexport PYTHONDONTWRITEBYTECODE
CONSTRAINED = $(addprefix -c ,$(wildcard $(CONSTRAINTS)))
NEXMARK = $(if $(EVENTS),--events $(EVENTS)) $(if $(QUERIES),--queries "$(QUERIES)") $(if $(CORRECTIONS),--corrections) $(if $(FORMAT),--format $(FORMAT)) \
  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(LIMIT),--limit $(LIMIT)) $(if $(AGAIN),--again) $(if $(UNCHECKED),--unchecked)

.DEFAULT_GOAL := help
.PHONY: chromium help demo demo-windows demo-cdc test test-all test-quick test-plain soak sweep doors simulate chaos chaos-cdc damage moves mutations matrix clusters soak-stream dev check farm java postgres mysql kafka cases bench bench-full nexmark nexmark-flink figures generated docs site constraints fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) java ## run both demos: a million changes of flights through a GROUP BY on Spark, then delays in windows (about two minutes, and the set-up)
	@$(BIN)/python examples/flights.py
	@$(MAKE) --no-print-directory demo-windows

demo-windows: $(READY) java ## run the second demo: delays by the hour and over 24 hours, corrected by late changes (about a minute)
	@$(BIN)/python examples/delays.py

demo-cdc: $(READY) java postgres kafka ## run the third demo: PostgreSQL, Debezium, Kafka, aggloom and back: make demo-cdc ARGS=--kill
	@$(BIN)/python examples/cdc.py $(ARGS)

test: $(READY) java postgres mysql kafka chromium ## run the tests of every feature, of long families a sample
	@$(BIN)/python -m pytest -m "not thorough" $(SPREAD) $(ARGS)

test-all: $(READY) java postgres mysql kafka chromium ## run every test, each case of it
	@$(BIN)/python -m pytest $(SPREAD) $(ARGS)

test-quick: $(READY) ## run the tests that need neither Spark nor long compiling
	@$(BIN)/python -m pytest -m "not spark and not slow and not thorough" -n auto $(ARGS)

test-plain: $(READY) java postgres mysql kafka ## run the tests of Spark with AGGLOOM_PLATFORM=plain, without our shortcuts, one after the other (hours at first)
	@AGGLOOM_PLATFORM=plain $(BIN)/python -m pytest -m spark $(ARGS)

soak: $(READY) ## run the property tests on examples that no run has seen, twenty times as many: make soak ARGS=--hypothesis-seed=7
	@AGGLOOM_EXAMPLES=other $(BIN)/python -m pytest -m "not spark" \
	  $$(grep -rlE '^(@|\w.* = )examples\(' tests --include='test_*.py') tests/windows/test_general_windows.py tests/spark/test_framing.py $(ARGS)

sweep: $(READY) java ## random queries of all operators on Spark, or ENGINE=local, beside DuckDB: make sweep SEEDS=1000:200
	@AGGLOOM_SEEDS=$(or $(SEEDS),1000:100) $(BIN)/python -m pytest -q \
	  $(if $(filter local,$(ENGINE)),tests/engine/test_local_oracle.py,tests/spark/test_spark_nested.py) $(ARGS)

chaos: $(READY) java ## kill runs on real Spark, half a minute each, or with ENGINE=local on that one, a few seconds each: make chaos RUNS=50 SEED=0
	@$(BIN)/python tests/chaos/$(if $(filter local,$(ENGINE)),local_run,run).py --runs $(or $(RUNS),10) --seed $(or $(SEED),0)

chaos-cdc: $(READY) java postgres kafka ## kill runs of the demo's line, half a minute each: broker, database, Debezium, driver, workers: make chaos-cdc RUNS=50 SEED=0, or with ENGINE=local on that one
	@$(BIN)/python tests/chaos/servers.py --runs $(or $(RUNS),10) --seed $(or $(SEED),0) --engine $(or $(ENGINE),spark)

moves: $(READY) java ## random queries that move between the engines, half a minute each: make moves COUNT=50 SEED=0
	@AGGLOOM_MOVES=$(or $(SEED),0):$(or $(COUNT),10) $(BIN)/python -m pytest -q tests/spark/test_move.py -k random $(ARGS)

matrix: $(READY) java ## run the tests of Spark under older ones, each in an environment of its own: make matrix SPARK="4.0 4.1 4.2"
	@$(BIN)/python tests/support/older_sparks.py $(or $(SPARK),4.0 4.1 4.2) $(ARGS)

clusters: $(READY) java ## a stream on Spark's own cluster, whose driver and a worker are killed (a minute or two)
	@AGGLOOM_CLUSTER=1 $(BIN)/python -m pytest tests/spark/test_clusters.py $(ARGS)

damage: $(READY) java ## damage every kind of file under a checkpoint in every way; with ENGINE=local so many files: make damage ENGINE=local COUNT=1000
	@AGGLOOM_DAMAGES=all AGGLOOM_LOCAL_DAMAGES=$(or $(COUNT),1000) $(BIN)/python -m pytest \
	  $(if $(filter local,$(ENGINE)),tests/engine/test_local_damage.py,tests/spark/test_damage.py) $(ARGS)

mutations: $(READY) ## restore snapshots with right checksums and wrong contents: make mutations COUNT=10000 SEED=0 (three minutes)
	@AGGLOOM_MUTATIONS=$(or $(COUNT),10000) AGGLOOM_MUTATIONS_SEED=$(or $(SEED),0) $(BIN)/python -m pytest -q tests/local/test_mutated.py $(ARGS)

soak-stream: $(READY) java ## stream over a constant set of keys, and hold memory, files and batch times flat: make soak-stream MINUTES=30
	@$(BIN)/python tests/chaos/soak.py --minutes $(or $(MINUTES),30) $(ARGS)

doors: $(READY) java kafka ## read random files and topics, good, bad and damaged: make doors EXAMPLES=10000 SEED=0
	@PYTHONPATH=tests:tests/support $(BIN)/python -m doors --examples $(or $(EXAMPLES),1000) --seed $(or $(SEED),0)

simulate: $(READY) ## play queries under faults, without Spark: make simulate SEEDS=10000, or SEED=7 for the script of one, or ENGINE=local
ifeq ($(ENGINE),local)
	@AGGLOOM_LOSSES=$(or $(SEEDS),1000) $(BIN)/python -m pytest -q tests/engine/test_power_loss.py $(ARGS)
else
	@$(BIN)/python tests/support/simulator.py $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000))
endif

dev: $(READY) farm ## make the environment and the link farm that type checkers read

check: $(READY) farm ## lint, formatting and strict types
	$(BIN)/ruff check .
	$(BIN)/black --check --quiet . || { echo "black would change files: run 'make fmt'"; exit 1; }
	$(BIN)/mypy
	MYPYPATH=examples:tests:docs $(BIN)/mypy examples/*.py tests/support/strict_user.py tests/cases/*.py docs/writers/*.py
	MYPYPATH=benchmarks $(BIN)/mypy --implicit-reexport --no-warn-unused-ignores --allow-subclassing-any --ignore-missing-imports \
	  benchmarks/*.py benchmarks/nexmark/*.py

cases: $(READY) java ## run a directory of case files through the harness, or with ENGINE=local on that engine: make cases DIR=../shared/cases
	@dir="$(or $(DIR),$(CASES))"; \
	if [ -d "$$dir" ]; then PYTHONPATH=tests $(BIN)/python -m cases "$$dir" --engine $(or $(ENGINE),harness); \
	elif [ -n "$(DIR)" ]; then echo "cases: no directory $(DIR)" >&2; exit 1; \
	else echo "cases: skipped, $(CASES) is not here; name a directory with DIR=..."; fi

bench: $(READY) java ## the benchmarks of streams, quickly: a few cases beside Flink SQL, Spark's own and the floor (about six minutes)
	@$(BIN)/python benchmarks/run.py --quick $(ARGS)

bench-full: $(READY) java ## all benchmarks of streams (about an hour and a quarter); benchmarks/README.md names those of other things
	@$(BIN)/python benchmarks/run.py $(ARGS)

nexmark: $(READY) java ## Nexmark's 23 queries, each checked against DuckDB and measured: make nexmark EVENTS=1000000 QUERIES="q4 q5" CORRECTIONS=1
	@PYTHONPATH=benchmarks $(BIN)/python -m nexmark $(NEXMARK) $(ARGS)

nexmark-flink: $(READY) java ## the same beside Flink SQL, which is installed the first time: make nexmark-flink EVENTS=10000000 ROUNDS=3
	@PYTHONPATH=benchmarks $(BIN)/python -m nexmark --flink $(NEXMARK) $(ARGS)

generated: $(READY) ## write the committed examples again, as this tree's generator would
	@$(BIN)/aggloom refresh --trust $(filter-out generated/__init__.py,$(wildcard generated/*.py))

docs: $(READY) ## write docs/functions.md, docs/expressions.md, the plans in docs/plans.md, docs/windows.md with its pictures and the notebooks again
	@PYTHONPATH=docs $(BIN)/python -m writers.functions docs/functions.md
	@PYTHONPATH=docs $(BIN)/python -m writers.expressions docs/expressions.md
	@PYTHONPATH=docs $(BIN)/python -m writers.plans docs/plans.md
	@PYTHONPATH=docs $(BIN)/python -m writers.windows docs/windows.md
	@$(BIN)/python examples/notebooks.py

site: $(READY) ## make the documentation as a static site in build/site/html
	@rm -rf build/site && mkdir -p build/site/pages
	@cp -r *.md LICENSE Makefile pyproject.toml aggloom $(ROOMS) templates benchmarks docs examples tests docs/site/*.md docs/site/reference build/site/pages
	@$(BIN)/sphinx-build -b html -q -W --keep-going -c docs/site build/site/pages build/site/html
	@echo build/site/html/index.html

constraints: ## install the newest of what the tests need, and write their versions down in .ci; run the tests before it is committed
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e ".[dev]"
	@$(BIN)/python -m pip freeze --exclude-editable > $(CONSTRAINTS)

fmt: $(READY) ## format the code and sort its imports
	$(BIN)/ruff check --fix --quiet --exit-zero .
	$(BIN)/black --quiet .

clean: ## remove everything that make made
	rm -rf build dist *.egg-info .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis metastore_db spark-warehouse $(VENV)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml $(wildcard .ci/constraints-*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "aggloom needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINED) -e ".[dev]"
	@touch $@

java:
	@bash .ci/java.sh

postgres:
	@bash .ci/postgres.sh

mysql:
	@bash .ci/mysql.sh

kafka: $(READY) java
	@BIN=$(BIN) bash .ci/kafka.sh

chromium:
	@bash .ci/chromium.sh

# The editable install is invisible to type checkers; they read this folder of links instead.
figures: $(READY) ## print the figures of the code's language: names, docstrings, shapes, calls, files and comments
	@$(BIN)/python tests/support/figures.py

farm:
	@rm -rf $(FARM) && mkdir -p $(FARM)
	@for room in $(ROOMS); do ln -sfn ../../../$$room $(FARM)/$$room; done
	@for file in aggloom/*.py aggloom/py.typed aggloom/project aggloom/sample aggloom/testing; do ln -sfn ../../../$$file $(FARM)/$$(basename $$file); done
