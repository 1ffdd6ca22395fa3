# make reproduce: every study, the table of verdicts, the report.   make confirm: the same on fresh seeds.   make test: all checks and tests.   make docs: the site.   make bench: speed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := src tests benchmarks notebooks docs/_hooks docs/_plots tools

.PHONY: reproduce confirm test tests test-slow test-browser lint index pack docs wheel bench clean

reproduce: $(VENV)/.installed
	@$(BIN)/unlazy reproduce $(ARGS)

# The same on seeds that nobody has looked at, next to the documented verdicts.
confirm: $(VENV)/.installed
	@$(BIN)/unlazy confirm $(ARGS)

# Two workers with two BLAS threads each get into each other's way: twice the time.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# The checks of the code take one core for a minute: beside the tests they cost less than before them.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 lint tests

tests: $(VENV)/.installed-dev
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(ARGS)

test-slow: $(VENV)/.installed-dev
	@$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m slow $(ARGS)

# What `unlazy list` says without importing the studies: after a change of a study's question, claims or sources.
index: $(VENV)/.installed
	@$(BIN)/python tools/index.py

# The results that the package ships with, for the explorer and the site: from the store that `make reproduce` fills.
pack: $(VENV)/.installed
	@$(BIN)/python tools/pack.py $(ARGS)

# The gallery shows the figures of what is stored, and of the shipped results where the store has none.
docs: $(VENV)/.installed-dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Pages in a real browser: Debian's package chromium. Without one the tests are skipped and say so.
test-browser: docs
	@UNLAZY_DOCS_SITE=site $(BIN)/python -m pytest -n 2 -m browser tests/browser $(ARGS)

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The wheel, installed into an environment of its own and run from another folder; it stays in dist/.
wheel: $(VENV)/.installed-dev
	@tools/try_wheel.sh $(VENV)

bench: $(VENV)/.installed-bench
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) report site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Made anew before every installation: an interrupted one may have left half an environment.
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "unlazy needs Python 3.11 or newer; choose one with: make PYTHON=/path/to/python3.11"; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
  { echo "this Python lacks ensurepip: install the package python3-venv (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
@$(PYTHON) -m venv $(VENV)
endef

$(VENV)/.installed: pyproject.toml constraints.txt
	$(environment)
	@echo "installing unlazy into $(VENV), once; this takes a minute or two"
	@$(PIP) -e '.[app]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt
	$(environment)
	@echo "installing unlazy and its development tools into $(VENV), once; this takes a minute or two"
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml constraints.txt | $(VENV)/.installed
	@echo "installing the peers of the benchmarks into $(VENV), once"
	@$(PIP) -e '.[bench]'
# Their pins are from another time; they run with what is installed.
	@$(PIP) --no-deps learning-curves==0.2.2 lcpfn==0.1.3 dill==0.4.1 ISLP==0.6.0
	@touch $@
