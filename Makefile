# Parley's commands. `make setup` is all the set-up there is; every other target depends on it.
SHELL := /bin/sh
VENV := .venv
PY := $(VENV)/bin/python
# An uv that answers from inside this folder (a shim on the PATH may not), otherwise one of our own in .tools/.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/bin/uv)
STAMP := $(VENV)/.parley-setup
AUDIT := .tools/audit

.PHONY: setup run quick test test-services test-browser test-all mutants faults faults-long upgrade-check lint types schema docs screenshots bench bench-peers interoperability trace-send wheel chart sbom audit lock image-base clean

setup: $(STAMP)

.tools/bin/uv:
	@echo "Fetching uv, which installs packages, into .tools/…"
	@{ python3 -m venv .tools || /usr/bin/python3 -m venv .tools; } && .tools/bin/pip install --quiet uv

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml .python-version | $(filter .tools/bin/uv,$(UV))
	@echo "Installing Parley's packages into $(VENV)/. This takes a minute or two, once…"
	@test -x $(PY) || $(UV) venv --quiet $(VENV) || $(UV) venv --quiet --python '>=3.12' $(VENV)
	@$(UV) pip sync --quiet --compile-bytecode --python $(PY) --require-hashes requirements-dev.lock
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

run: setup
	@echo "Starting Parley. Ctrl-C stops it."
	@exec $(PY) manage.py serve

# The tiers of the tests: tests/README.md. TESTS="tests/plans -n 0" runs a part, here in one process, for a debugger.
quick: setup
	@$(PY) -m tests.quick $(if $(BASE),--base $(BASE))

test: setup
	@$(PY) -m tests.tiers test $(TESTS)

test-services: setup
	@$(PY) -m tests.tiers services $(TESTS)

test-browser: setup
	@$(PY) -m tests.tiers browser $(TESTS)

test-all: setup
	@$(PY) -m tests.tiers all-embedded
	@$(PY) -m tests.tiers all-services
	@$(PY) -m tests.tiers redis-broker
	@$(MAKE) mutants

# Changes the code in a copy, by a fixed seed, and says how many of the changes some test notices.
mutants: setup
	@$(PY) -m tests.mutants $(MUTANTS)

# Kills, freezes and cuts a Parley of its own under load, and judges by the record whether anything was lost: docs/reliability.md
# FAULTS="--seed 7 --minutes 2 --only freeze,broker-flush --embedded"
faults: setup
	@$(PY) -m faults $(FAULTS)

faults-long: setup
	@$(PY) -m faults --minutes 30 $(FAULTS)

# An upgrade under load, from the newest tag, or UPGRADE="REVISION --seconds 5"
upgrade-check: setup
	@$(PY) -m faults.upgrade $(UPGRADE)

# djlint's formatter is not used: it would break lines where spaces count.
lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/djlint --lint --quiet templates
	$(VENV)/bin/lint-imports

types: setup
	$(PY) -m mypy platform/parley platform/agentkit platform/config apps examples
	$(PY) -m mypy --strict tests/agentkit/author_example.py

# The client API's description, which clients are generated from.
schema: setup
	$(PY) manage.py spectacular --validate --fail-on-warn --file docs/client-api/openapi.yaml

# The documentation as a site, in site/. A broken link is an error; with --quiet it would be none.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# The main pages at every size and in both themes, in var/screenshots; needs Chromium.
screenshots: setup
	$(PY) -m tests.browser.screenshots var/screenshots

# BENCH="--only plans --plans" measures 1,000 plans of ten steps, and one of 2,000 steps.
bench: setup
	$(PY) -m benchmarks $(BENCH)

# Parley beside the official SDK's server. BENCH="--quick", BENCH="--only send1,stream", BENCH="--write" updates docs/performance.md
bench-peers: setup
	@$(PY) -m benchmarks.peers $(BENCH)

# 1, 2, 4 … web processes and as many workers: docs/scaling.md. BENCH="--quick", BENCH="--processes 1,6"
bench-scaling: setup
	@$(PY) -m benchmarks.scaling $(BENCH)

# Other people's A2A software and Parley, both ways: docs/reference/interoperability.md. Needs a network, and Node.
interoperability: setup
	@UV=$(UV) $(PY) -m interoperability --write

# The files, functions and calls of our own that one blocking send enters. TRACE="--list --door api"
trace-send: setup
	@$(PY) -m benchmarks.trace_send $(TRACE)

# What an installation needs besides requirements.lock: dist/parley_platform-*.whl; and agentkit and the client, each alone
wheel: setup
	@$(PY) -m hatchling build --target wheel --directory dist
	@cd platform/agentkit && $(CURDIR)/$(PY) -m hatchling build --target wheel --directory $(CURDIR)/dist
	@cd platform/parley/terminal && $(CURDIR)/$(PY) -m hatchling build --target wheel --directory $(CURDIR)/dist

# A Helm chart of deploy/kubernetes: dist/parley-*.tgz. IMAGE="registry.your-company.example/parley"
chart: setup
	@$(PY) deploy/tools/helm.py dist $(if $(IMAGE),--image $(IMAGE))

# The list of all packages that an installation has, as CycloneDX: dist/sbom.json
sbom: $(AUDIT)/.installed
	@mkdir -p dist
	@$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file dist/sbom.json requirements.lock
	@echo "dist/sbom.json lists $$($(AUDIT)/bin/python -c 'import json; print(len(json.load(open("dist/sbom.json"))["components"]))') packages."

# Known vulnerabilities of these packages. It asks the advisory database of PyPI.
audit: $(AUDIT)/.installed
	@$(AUDIT)/bin/python deploy/tools/audit.py $(AUDIT)/bin/pip-audit

$(AUDIT)/.installed: deploy/tools/requirements.txt | $(filter .tools/bin/uv,$(UV))
	@$(UV) venv --quiet --clear $(AUDIT)
	@$(UV) pip sync --quiet --python $(AUDIT)/bin/python --require-hashes deploy/tools/requirements.txt
	@touch $@

# The locks carry hashes and name no host.
lock: | $(filter .tools/bin/uv,$(UV))
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--extra s3 --extra showcase pyproject.toml -o requirements.lock
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--extra s3 --extra showcase --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		deploy/tools/requirements.in -o deploy/tools/requirements.txt

# Pins the container's base image by the digest that the registry has now; needs Docker. Commit the change.
PYTHON_IMAGE := python:3.13-slim-trixie
image-base:
	@digest=$$(docker buildx imagetools inspect $(PYTHON_IMAGE) --format '{{.Manifest.Digest}}') \
		&& printf '%s' "$$digest" | grep -Eqx 'sha256:[0-9a-f]{64}' \
		&& sed -i.old "s|^ARG PYTHON=.*|ARG PYTHON=$(PYTHON_IMAGE)@$$digest|" deploy/docker/Dockerfile && rm deploy/docker/Dockerfile.old \
		&& echo "deploy/docker/Dockerfile begins with $(PYTHON_IMAGE)@$$digest"

clean:
	rm -rf $(VENV) .tools
