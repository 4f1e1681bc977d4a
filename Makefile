# Five verbs, and thirteen for special days. They use .venv where it is there (README makes it), else the Python on the PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)

CHECKS := check-format check-lint check-types check-samples check-imports check-dependencies check-spelling check-site
.PHONY: fmt check $(CHECKS) test test-all docs site attack chaos fuzz guards oracle benchmarks pictures peers lock lowest python dist sbom

fmt:
	$(BIN)ruff check --fix src tests benchmarks examples docs
	$(BIN)ruff format src tests benchmarks examples docs

# Side by side with make check -j2 --output-sync.
check: $(CHECKS)

check-format:
	$(BIN)ruff format --check src tests benchmarks examples docs

check-lint:
	$(BIN)ruff check src tests benchmarks examples docs

check-types:
	$(BIN)pyright

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

# What proves the product, in four minutes on two processors; it ends with what it left out (tests/selection.py).
test:
	$(BIN)python -m pytest

# Everything, the servers of others included, in twenty minutes on two processors.
test-all: | .peers/node_modules
	TREADLE_TEST_PEERS=required $(BIN)python -m pytest --all

.peers/node_modules:
	$(MAKE) peers

docs:
	$(BIN)python -m treadle.cli.stream_schema
	$(BIN)python -m pytest tests/test_docs.py -n0

# The documentation site, into build/site, without network access. It fails for a dead link and for a public name without a description.
site: check-site

# Crashes for as long as one likes: make chaos CHAOS="--only kills --seconds 600"; docs/durability.md says what comes of it.
chaos:
	$(BIN)python -m tests.crash.chaos $(CHAOS)

# Properties with examples drawn at random, again and again; plain pytest draws the same every time: make fuzz ROUNDS=20 FUZZ="tests/policy".
fuzz:
	for round in $$(seq $(or $(ROUNDS),5)); do $(BIN)python -m pytest -m hypothesis --hypothesis-profile fuzz --timeout 600 $(FUZZ) || exit 1; done

# Hostile servers, exports, schemas, clients, names and notifications from ever other seeds, for two minutes, or nightly: make attack ATTACK="--seconds 3600".
attack:
	$(BIN)python -m tests.attacks $(ATTACK)

# Each guard of tests/guards/guards.toml is broken in a copy of the tree, and a test must turn red: make guards GUARDS="--only sandbox".
guards:
	$(BIN)python -m tests.guards $(GUARDS)

# Generated command lines: those that the policy allows are run in a jail, and none may do harm: make oracle ORACLE="--decide 2000000 --run 200000".
oracle:
	$(BIN)python -m tests.oracle $(ORACLE)

# Every figure of docs/internals/promises.md, on a machine that does nothing else. BENCH="--quick" for a first look at the first of them.
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
	$(BIN)python -m benchmarks.capacity
	$(BIN)python -m benchmarks.takeover

# The pictures of the chat, out of the chat itself, in tmux; and of the web page, out of chromium.
pictures:
	$(BIN)python docs/pictures/make.py
	$(BIN)python -m docs.pictures.make_service

# What tests/peers runs against: servers of others, a node package into .peers and wheels beside our own; and the JSON Schema Test Suite, which
# the source package of jsonschema brings along. All of it by hash, and no package runs a script of its own.
SUITE := jsonschema-4.26.0
NPM := --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel error
peers:
	mkdir -p .peers/json-schema-suite && cp tests/peers/package.json tests/peers/package-lock.json .peers/
	npm ci --prefix .peers $(NPM)
	if $(BIN)python -c 'import pip' 2>/dev/null; then $(BIN)python -m pip install --quiet --require-hashes --only-binary=:all: --requirement tests/peers/requirements.lock; \
	else uv pip install --quiet --require-hashes --only-binary=:all: --requirement tests/peers/requirements.lock; fi
	sed -n '/^$(subst -,==,$(SUITE)) /,/[^\]$$/p' requirements.lock > .peers/suite.txt
	$(BIN)python -m pip download --quiet --require-hashes --no-deps --no-build-isolation --no-binary jsonschema --dest .peers --requirement .peers/suite.txt
	tar -xzf .peers/$(SUITE).tar.gz -C .peers/json-schema-suite --strip-components 2 $(SUITE)/json

# Pins with hashes for README's commands and for the image, then those of the peers and of a release; none names an index.
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
lock:
	$(COMPILE) pyproject.toml --extra cli --group dev --output-file requirements.lock
	$(COMPILE) --group peers --constraint requirements.lock --output-file tests/peers/requirements.lock
	$(COMPILE) --group release --constraint requirements.lock --output-file .github/release.lock
	npm install --prefix tests/peers --package-lock-only $(NPM)
	$(BIN)python -m tests.peers.locks

# The suite on another Python, with the locked versions: make python VERSION=3.13 TESTS="tests/loop"; and with the oldest versions that
# pyproject.toml allows, on the oldest Python: make lowest TESTS=--all. Both need uv, and make an environment of their own below build/.
# The counts of tests/test_calls.py hold for the locked versions only.
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

# A wheel and an sdist in dist/, with what an index checks; then tests run from the unpacked sdist, in an environment of its own.
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

# What the wheel of dist/ is installed with, all extras included, as a CycloneDX bill of materials. Needs uv.
sbom: build/release
	uv pip compile --quiet --upgrade --constraint requirements.lock --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url pyproject.toml --all-extras --output-file build/sbom.lock
	uv venv --quiet --clear --python 3.11 build/sbom
	uv pip install --python build/sbom --quiet --require-hashes --only-binary=:all: --requirements build/sbom.lock
	uv pip install --python build/sbom --quiet --no-deps --no-build-isolation dist/treadle-*.whl
	build/release/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file build/treadle.cdx.json build/sbom/bin/python
