# The ways to build, try and check gptbridge. `make help` lists them. Works with GNU make 3.81 and later, on Linux and macOS.
.DEFAULT_GOAL := help
.NOTPARALLEL:
BIN := .venv/bin
SEED ?= 0
COUNT ?= 1000
# Where it is set, each of the thousand processes of a test run would compile every module anew: a third of a second for a send.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Python packages, Chromium and its driver, and what the tests need; quick when all is there
	@tools/install-system-packages browser strace
	@tools/install-python-packages

demo: ## one real send and one resume through Chromium on the practice site; leaves nothing running
	@tools/install-system-packages browser
	@tools/install-python-packages
	@exec $(BIN)/python tools/demo.py

# The files with a browser come first, in the order of their names: last, they would keep one core waiting for the other.
test: setup lint ## everything, with a real browser; a missing browser is a failure
	@ASKGPT_TEST_BROWSER=required exec $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-fake: ## every test that needs no browser
	@tools/install-python-packages
	@exec $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not browser"

lint: ## style, types, and which room may import which
	@tools/install-python-packages
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

soak: setup ## the random tests for long: SEED=0 COUNT=1000 (examples for each, 20 times as many of the log's grammar), and all marked `soak`
	@ASKGPT_TEST_BROWSER=required SOAK_SEED=$(SEED) SOAK_EXAMPLES=$(COUNT) exec $(BIN)/python -m pytest \
	  -m "hypothesis or soak" --hypothesis-seed=$(SEED) --timeout=3600 --durations=5 -rP

bench: ## what things cost here, next to what they could: all, or ONLY=durable, start, rows, transcript, watching or sends
	@$(if $(filter-out sends,$(ONLY)),:,tools/install-system-packages browser)
	@tools/install-python-packages
	@exec $(BIN)/python tools/bench $(if $(ONLY),--only $(ONLY))

refusals: ## what ask-gpt does at each no of the page and each change of it: exit code, requests, answers (ONLY=words of rows)
	@tools/install-system-packages browser
	@tools/install-python-packages
	@PYTHONPATH=. exec $(BIN)/python tools/refusals.py $(ONLY)

logs-example: ## make the specimens in logs-example/ anew, from real runs
	@tools/install-system-packages browser
	@tools/install-python-packages
	@exec $(BIN)/python tools/logs_example.py

states: ## draw the states of an operation anew, from the code: docs/states.md
	@tools/install-python-packages
	@PYTHONPATH=. exec $(BIN)/python tools/states.py

clean: ## remove what setup and the tools made in this folder
	rm -rf .venv .make build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find gptbridge tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup demo test test-fake lint soak bench refusals logs-example states clean
