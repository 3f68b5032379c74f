# make help lists the targets. Nothing here needs an activated environment: .venv is made and used by itself.
PYTHON ?= python3
CONSTRAINTS ?= envs/constraints-cpu.txt
STUDY ?= config/demo.yaml
# more arguments for Snakemake, e.g. make demo DEMO_ARGS="--config 'seeds=[0]'"
DEMO_ARGS ?=
# more arguments for every benchmark
BENCH_ARGS ?=
# two test processes with one thread each suit two cores
WORKERS ?= 2
BIN := .venv/bin
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

.DEFAULT_GOAL := help
.PHONY: help env demo docs-demo bench test test-slow slurm-demo slurm-up slurm-down lint format schema models site clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

env: .venv/.done ## make .venv with everything (CPU; on a GPU machine: rm -rf .venv && make env CONSTRAINTS=)

.venv/.done: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than Python 3.11; make env PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/pip || { echo "making .venv"; $(PYTHON) -m venv .venv; }
# editable_mode=compat: Snakemake looks for executors in folders on Python's path, not behind import hooks
	@echo "installing packages into .venv (2 GB; two to five minutes the first time)"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
	  $(addprefix -c ,$(CONSTRAINTS)) -e '.[dev]' --config-settings editable_mode=compat \
	  | { grep --line-buffered -E '^ *Downloading.* MB|^Installing' | cut -c1-100 || true; }
	@touch $@
	@echo "environment ready: $$($(BIN)/hargo --version)"

demo: env ## run the demo study and print its headline table (another one: STUDY=FILE)
# Snakemake would not say in which line of a study a fault is
	@$(BIN)/hargo config check $(STUDY) > /dev/null
	$(BIN)/snakemake --profile profiles/local --configfile $(STUDY) --quiet host reason $(DEMO_ARGS)
	@$(BIN)/hargo report --show --config $(STUDY)

docs-demo: env ## run the demo; renew docs/results/demo and the tables of README.md and docs/results from it
	$(BIN)/snakemake --profile profiles/local --configfile config/demo.yaml --quiet host reason $(DEMO_ARGS)
	$(BIN)/hargo report --config config/demo.yaml --out docs/results/demo --no-rows
	rm -f docs/results/demo/report.html docs/results/demo/figures/*.png
	$(BIN)/python docs/tables.py

bench: env ## time an RL step against TRL and its parts, refresh docs/performance.md (under two hours; BENCH_ARGS="--hpcgpt FOLDER")
	$(BIN)/python benchmarks/bench_rollout.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_step.py --groups 4 $(BENCH_ARGS)
# of eight answers, TRL's micro-batch and ours would not fit into 24 GB together
	$(BIN)/python benchmarks/bench_step.py --groups 8 --rivals grpo trl+per_device_train_batch_size=4 $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_step.py --groups 4 --races $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_step.py --groups 4 --rivals grpo hargo --rounds 11 $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_step.py --profile $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_scaling.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/bench_memory.py $(BENCH_ARGS)
# three at once, in passes that leave each the memory
	$(BIN)/python benchmarks/bench_step.py --groups 4 --rivals grpo+tokens_per_pass=1024 \
	  grpo+tokens_per_pass=1024+compile grpo+tokens_per_pass=1024+fused_adamw=false $(BENCH_ARGS)
	$(BIN)/python benchmarks/report.py

test: env ## quick tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m 'not slow' -rs

test-slow: env ## every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -rs --durations 10

slurm-demo: env ## the demo study through profiles/slurm on a Slurm cluster of this machine, in build/slurm-demo
	@mkdir -p build/slurm-demo
	$(BIN)/python tests/slurm/cluster.py run -- $(BIN)/snakemake --profile profiles/slurm --jobs 2 \
	  --directory build/slurm-demo --configfile $(abspath $(STUDY)) --quiet host reason $(DEMO_ARGS)
	@cd build/slurm-demo && $(CURDIR)/$(BIN)/hargo report --show --config $(abspath $(STUDY))
	@cd build/slurm-demo && $(CURDIR)/$(BIN)/hargo slurm report --config $(abspath $(STUDY))

slurm-up: env ## start a Slurm cluster on this machine and say how to use it
	$(BIN)/python tests/slurm/cluster.py up

slurm-down: env ## stop it
	$(BIN)/python tests/slurm/cluster.py down

lint: env ## style, types and workflow checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

format: env ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

schema: env ## write what is generated: the schema of a study, docs/methods.md, tables of committed results
	$(BIN)/hargo config schema > workflow/schemas/study.schema.json
	$(BIN)/hargo methods --markdown > docs/methods.md
	$(BIN)/python docs/tables.py

models: env ## write docs/models.md: what every family of models can do, in some minutes
	PYTHONPATH=.:tests/support $(BIN)/python tests/support/zoo.py > docs/models.md

site: env ## the documents as pages, in build/site/pages; a broken link is an error
	$(BIN)/python docs/pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean: ## delete results, logs and caches, but not .venv or what was fetched (results/cache)
	find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name cache -exec rm -rf {} +
	rm -rf .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
