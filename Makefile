# Daily: fmt, check, test, test-all, docs. The other targets are for special purposes. All use .venv if it exists (see README), otherwise the Python on the PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)
# For packages, if it is there: it needs no pip in .venv, and takes a fifth of the time.
UV := $(if $(BIN),$(or $(wildcard .venv/bin/uv),$(shell command -v uv)))

CHECKS := check-format check-lint check-types check-samples check-imports check-dependencies check-spelling check-site
.PHONY: fmt check $(CHECKS) test test-all docs site attack chaos fuzz guards oracle benchmarks pictures peers peers-node peers-celery peers-python lock lowest python dist sbom

fmt:
	$(BIN)ruff check --fix src tests benchmarks examples docs
	$(BIN)ruff format src tests benchmarks examples docs

# In parallel: make check -j2 --output-sync.
check: $(CHECKS)

check-format:
	$(BIN)ruff format --check src tests benchmarks examples docs

check-lint:
	$(BIN)ruff check src tests benchmarks examples docs

# The option saves node an eighth of the time, since it collects garbage less often.
check-types:
	NODE_OPTIONS=--max-semi-space-size=128 $(BIN)pyright

check-samples:
	$(BIN)mypy

check-imports:
	$(BIN)lint-imports --no-cache

check-dependencies:
	$(BIN)deptry src

check-site:
	$(BIN)python -m docs.site.build

check-spelling:
	$(BIN)codespell src docs benchmarks examples README.md ARCHITECTURE.md AGENTS.md CONTRIBUTING.md SECURITY.md CHANGELOG.md CODE_OF_CONDUCT.md

# The default tests, in four minutes on two processors; ends with a list of those left out (tests/selection.py).
test:
	$(BIN)python -m pytest

# Every test, including those against third-party servers, in about fourteen minutes on two processors.
test-all: | .peers/node_modules
	TREADLE_TEST_PEERS=required $(BIN)python -m pytest --all

.peers/node_modules:
	$(MAKE) peers

docs:
	$(BIN)python -m treadle.cli.stream_schema
	$(BIN)python -m tests.test_docs
	$(BIN)python -m pytest tests/test_docs.py -n0

# The documentation site, into build/site, without network access. Fails for a dead link or a public name without a description.
site: check-site

# Crash tests of any duration: make chaos CHAOS="--only kills --seconds 600". docs/durability.md describes the results.
chaos:
	$(BIN)python -m tests.crash.chaos $(CHAOS)

# Property tests with random examples, in rounds: make fuzz ROUNDS=20 FUZZ="tests/policy". With CI set, pytest always draws the same examples.
fuzz:
	for round in $$(seq $(or $(ROUNDS),5)); do $(BIN)python -m pytest -m hypothesis --hypothesis-profile fuzz --timeout 600 $(FUZZ) || exit 1; done

# Hostile servers, exports, schemas, clients, names and notifications with new seeds, for two minutes or longer: make attack ATTACK="--seconds 3600".
attack:
	$(BIN)python -m tests.attacks $(ATTACK)

# Break each guard of tests/guards/guards.toml in a copy of the tree; a test must fail: make guards GUARDS="--only sandbox".
guards:
	$(BIN)python -m tests.guards $(GUARDS)

# Generate command lines and run those that the policy allows in a jail; none may do harm: make oracle ORACLE="--decide 2000000 --run 200000".
oracle:
	$(BIN)python -m tests.oracle $(ORACLE)

# Every figure of docs/internals/promises.md; use an idle machine. BENCH="--quick" shortens the first benchmark.
benchmarks:
	$(BIN)python benchmarks/run.py $(BENCH)
	$(BIN)python benchmarks/journal.py
	$(BIN)python benchmarks/assistant.py
	$(BIN)python benchmarks/sandbox.py
	$(BIN)python benchmarks/grep.py
	$(BIN)python benchmarks/subagents.py
	$(BIN)python benchmarks/hooks.py
	$(BIN)python -m benchmarks.caching
	$(BIN)python benchmarks/tui_drawing.py
	$(BIN)python benchmarks/tui.py
	$(BIN)python -m benchmarks.postgres
	$(BIN)python -m benchmarks.workers
	$(BIN)python -m benchmarks.temporal
	$(BIN)python -m benchmarks.capacity
	$(BIN)python -m benchmarks.takeover
	$(BIN)python -m benchmarks.shards

# Screenshots of the chat (in tmux) and of the web page (in Chromium).
pictures:
	$(BIN)python docs/pictures/make.py
	$(BIN)python -m docs.pictures.make_service

# Install what tests/peers needs: third-party servers (a node package in .peers, wheels in the environment) and the JSON Schema Test Suite, which is
# part of the source package of jsonschema. Everything is checked by hash, and install scripts are off.
SUITE := jsonschema-4.26.0
NPM := --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel error
peers: peers-node peers-python peers-celery

peers-node:
	mkdir -p .peers && cp tests/peers/package.json tests/peers/package-lock.json .peers/
	npm ci --prefix .peers $(NPM)

peers-python:
	mkdir -p .peers/json-schema-suite
	$(or $(UV),$(BIN)python -m) pip install --quiet --require-hashes --only-binary=:all: --requirement tests/peers/requirements.lock
	sed -n '/^$(subst -,==,$(SUITE)) /,/[^\]$$/p' requirements.lock > .peers/suite.txt
	$(BIN)python -m pip download --quiet --require-hashes --no-deps --no-build-isolation --no-binary jsonschema --dest .peers --requirement .peers/suite.txt
	tar -xzf .peers/$(SUITE).tar.gz -C .peers/json-schema-suite --strip-components 2 $(SUITE)/json

peers-celery:
	rm -rf .peers/celery
	$(or $(UV),$(BIN)python -m) pip install --quiet --require-hashes --only-binary=:all: --target .peers/celery --requirement tests/peers/celery.lock

# Pin versions with hashes: for README and the image, for the peers, and for releases. The lock files name no package index.
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
lock:
	$(COMPILE) pyproject.toml --extra cli --group dev --output-file requirements.lock
	$(COMPILE) --group peers --constraint requirements.lock --output-file tests/peers/requirements.lock
	$(COMPILE) --group celery --output-file tests/peers/celery.lock
	$(COMPILE) --group ci --output-file .ci/requirements.lock
	$(COMPILE) --group release --constraint requirements.lock --output-file .github/release.lock
	npm install --prefix tests/peers --package-lock-only $(NPM)
	$(BIN)python -m tests.peers.locks

# make python VERSION=3.13 TESTS="tests/loop": run tests on another Python with the locked versions. make lowest TESTS=--all: run them on the oldest
# Python with the oldest versions that pyproject.toml allows. Both need uv and create an environment below build/.
# The counts in tests/test_calls.py are valid only for the locked versions.
python:
	uv venv --quiet --clear --python $(VERSION) build/python-$(VERSION)
	uv pip install --python build/python-$(VERSION) --quiet --require-hashes --only-binary=:all: --requirements requirements.lock
	uv pip install --python build/python-$(VERSION) --quiet --no-deps --no-build-isolation --editable .
	build/python-$(VERSION)/bin/python -m pytest $(TESTS)

lowest:
	mkdir -p build
	uv pip compile --quiet --upgrade --resolution lowest-direct --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url pyproject.toml --all-extras --group dev --output-file build/lowest.lock
	$(BIN)python -m tests.lowest build/lowest.lock
	uv venv --quiet --clear --python 3.11 build/lowest
	uv pip install --python build/lowest --quiet --require-hashes --only-binary=:all: --requirements build/lowest.lock
	uv pip install --python build/lowest --quiet --no-deps --no-build-isolation --editable .
	build/lowest/bin/python -m pytest --ignore tests/test_calls.py $(TESTS)

# Build a wheel and an sdist in dist/, check them as a package index would, and run tests from the unpacked sdist in its own environment.
SDIST_TESTS := tests/test_locks.py tests/test_public_api.py tests/test_deploy.py tests/messages tests/loop
build/release: .github/release.lock
	$(BIN)python -m venv --clear $@
	$@/bin/python -m pip install --quiet --require-hashes --only-binary=:all: --requirement .github/release.lock
	touch $@

dist: build/release
	rm -rf dist build/sdist && mkdir -p build/sdist
	$(BIN)python -m build --no-isolation --outdir dist .
	build/release/bin/twine check --strict dist/*
	tar -xzf dist/treadle-*.tar.gz -C build/sdist --strip-components 1
	$(BIN)python -m venv build/sdist/.venv
	build/sdist/.venv/bin/python -m pip install --quiet --require-hashes --only-binary=:all: --requirement build/sdist/requirements.lock
	build/sdist/.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable build/sdist
	cd build/sdist && .venv/bin/python -m pytest $(SDIST_TESTS)

# Write a CycloneDX bill of materials for the wheel in dist/ with all its extras. Needs uv.
sbom: build/release
	uv pip compile --quiet --upgrade --constraint requirements.lock --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url pyproject.toml --all-extras --output-file build/sbom.lock
	uv venv --quiet --clear --python 3.11 build/sbom
	uv pip install --python build/sbom --quiet --require-hashes --only-binary=:all: --requirements build/sbom.lock
	uv pip install --python build/sbom --quiet --no-deps --no-build-isolation dist/treadle-*.whl
	build/release/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file build/treadle.cdx.json build/sbom/bin/python
