# Parley's commands. `make setup` is all the set-up there is; every other target depends on it.
SHELL := /bin/sh
VENV := .venv
PY := $(VENV)/bin/python
# An uv that answers from inside this folder (a shim on the PATH may not), otherwise one of our own in .tools/.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/bin/uv)
STAMP := $(VENV)/.parley-setup

.PHONY: setup run test test-services lint types schema screenshots bench lock clean

setup: $(STAMP)

.tools/bin/uv:
	@{ python3 -m venv .tools || /usr/bin/python3 -m venv .tools; } && .tools/bin/pip install --quiet uv

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml .python-version | $(filter .tools/bin/uv,$(UV))
	@test -x $(PY) || $(UV) venv --quiet $(VENV) || $(UV) venv --quiet --python '>=3.12' $(VENV)
	@$(UV) pip sync --quiet --compile-bytecode --python $(PY) --require-hashes requirements-dev.lock
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

run: setup
	@exec $(PY) manage.py serve

# TESTS="tests/web tests/a2a" runs some of them; WORKERS=0 runs them in one process, for a debugger or to read what they print.
WORKERS ?= auto
PYTEST := $(PY) -m pytest -n $(WORKERS)

test: setup
	$(PYTEST) $(TESTS)

test-services: setup
	DATABASE_URL="$${DATABASE_URL:-postgres://postgres@127.0.0.1:5432/postgres}" \
	CELERY_BROKER_URL="$${CELERY_BROKER_URL:-amqp://guest:guest@127.0.0.1:5672//}" \
	CHANNEL_LAYER_URL="$${CHANNEL_LAYER_URL:-redis://127.0.0.1:6379/0}" \
	$(PYTEST) $(TESTS)

# djlint's formatter is not used: it would break lines where spaces count.
lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/djlint --lint --quiet templates
	$(VENV)/bin/lint-imports

types: setup
	$(PY) -m mypy platform/config platform/agentkit platform/bridge platform/console platform/outbound apps

# The client API's description, which clients are generated from.
schema: setup
	$(PY) manage.py spectacular --validate --fail-on-warn --file docs/client-api/openapi.yaml

# The main pages at every size and in both themes, in var/screenshots; needs Chromium.
screenshots: setup
	$(PY) -m tests.browser.screenshots var/screenshots

# BENCH="--only plans --plans" measures 1,000 plans of ten steps, and one of 2,000 steps.
bench: setup
	$(PY) -m benchmarks $(BENCH)

# The locks carry hashes and name no host.
lock: | $(filter .tools/bin/uv,$(UV))
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--extra showcase pyproject.toml -o requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--extra showcase --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		tests/a2a/old_sdk/requirements.in -o tests/a2a/old_sdk/requirements.txt

clean:
	rm -rf $(VENV) .tools
