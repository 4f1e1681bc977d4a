# Four verbs, and five for special days. They use .venv where it is there (README makes it), else the Python on the PATH.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)

.PHONY: fmt check test docs chaos guards benchmarks peers lock

fmt:
	$(BIN)ruff check --fix src tests benchmarks
	$(BIN)ruff format src tests benchmarks

check:
	$(BIN)ruff format --check src tests benchmarks
	$(BIN)ruff check src tests benchmarks
	$(BIN)pyright
	$(BIN)mypy
	$(BIN)lint-imports
	$(BIN)deptry src
	$(BIN)codespell src docs benchmarks README.md ARCHITECTURE.md AGENTS.md CONTRIBUTING.md SECURITY.md CHANGELOG.md

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

# The servers of others that tests/peers runs against: a node package into .peers, wheels beside our own.
peers:
	mkdir -p .peers && cp tests/peers/package.json .peers/
	npm install --prefix .peers --no-package-lock --no-audit --no-fund --loglevel error
	$(BIN)python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["peers"], sep="\n")' > .peers/requirements.txt
	if $(BIN)python -c 'import pip' 2>/dev/null; then $(BIN)python -m pip install --quiet --requirement .peers/requirements.txt; \
	else uv pip install --quiet --requirement .peers/requirements.txt; fi

# Pins for README's commands; uv writes no index lines into it.
lock:
	uv pip compile --quiet --universal --python-version 3.11 pyproject.toml --group dev --no-header --no-annotate --no-emit-index-url --output-file requirements.lock
