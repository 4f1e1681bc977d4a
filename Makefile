# Four verbs, and six for special days. They use .venv where it is there (README makes it), else the Python on the PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)

.PHONY: fmt check test docs chaos guards benchmarks pictures peers lock

fmt:
	$(BIN)ruff check --fix src tests benchmarks examples docs/pictures
	$(BIN)ruff format src tests benchmarks examples docs/pictures

check:
	$(BIN)ruff format --check src tests benchmarks examples docs/pictures
	$(BIN)ruff check src tests benchmarks examples docs/pictures
	$(BIN)pyright
	$(BIN)mypy
	$(BIN)lint-imports --no-cache
	$(BIN)deptry src
	$(BIN)codespell src docs benchmarks examples README.md ARCHITECTURE.md AGENTS.md CONTRIBUTING.md SECURITY.md CHANGELOG.md

test:
	$(BIN)python -m pytest

docs:
	$(BIN)python -m treadle.schemas
	$(BIN)python -m pytest tests/test_docs.py -n0

# Crashes for as long as one likes: make chaos CHAOS="--only kills --seconds 600"; docs/durability.md says what comes of it.
chaos:
	$(BIN)python -m tests.crash.chaos $(CHAOS)

# Each guard of tests/guards/guards.toml is broken in a copy of the tree, and a test must turn red: make guards GUARDS="--only sandbox".
guards:
	$(BIN)python -m tests.guards $(GUARDS)

# Every figure of docs/promises.md, on a machine that does nothing else. BENCH="--quick" for a first look at the first of them.
benchmarks:
	$(BIN)python benchmarks/run.py $(BENCH)
	$(BIN)python benchmarks/journal.py
	$(BIN)python benchmarks/assistant.py
	$(BIN)python benchmarks/sandbox.py
	$(BIN)python benchmarks/grep.py
	$(BIN)python benchmarks/subagents.py
	$(BIN)python benchmarks/hooks.py
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
# the source package of jsonschema brings along.
SUITE := jsonschema-4.26.0
peers:
	mkdir -p .peers && cp tests/peers/package.json .peers/
	npm install --prefix .peers --no-package-lock --no-audit --no-fund --loglevel error
	$(BIN)python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["peers"], sep="\n")' > .peers/requirements.txt
	if $(BIN)python -c 'import pip' 2>/dev/null; then $(BIN)python -m pip install --quiet --requirement .peers/requirements.txt; \
	else uv pip install --quiet --requirement .peers/requirements.txt; fi
	if $(BIN)python -c 'import pip' 2>/dev/null; then pip="$(BIN)python -m pip"; else pip="uvx pip"; fi; \
	$$pip download --quiet --no-deps --no-binary jsonschema --dest .peers $(subst -,==,$(SUITE))
	mkdir -p .peers/json-schema-suite && tar -xzf .peers/$(SUITE).tar.gz -C .peers/json-schema-suite --strip-components 2 $(SUITE)/json

# Pins for README's commands; uv writes no index lines into it.
lock:
	uv pip compile --quiet --universal --python-version 3.11 pyproject.toml --group dev --no-header --no-annotate --no-emit-index-url --output-file requirements.lock
