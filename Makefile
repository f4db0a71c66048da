# make setup   environment in .venv, native kernel built
# make test    everything that must hold before a change is committed
# make demo    a model reads a whole novel and answers questions about it
# make docs    the documents as a site, in site/
# make bench   the published measurements, in full; takes a while
# make clean   removes what the others made

.DEFAULT_GOAL := test
.PHONY: setup test demo docs bench clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.longspan-installed
KERNEL := $(wildcard src/longspan/attention/csrc/*)

setup: $(STAMP)

# setup.py builds the kernel, so its sources are among what makes an installation stale.
$(STAMP): pyproject.toml constraints.txt $(wildcard setup.py) $(KERNEL)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto

demo: setup
	$(BIN)/longspan demo

docs: setup
	$(BIN)/mkdocs build --strict

bench: setup
	$(BIN)/longspan bench kernel --out benchmarks/results
	$(BIN)/longspan bench attention --out benchmarks/results
	$(BIN)/longspan bench model --out benchmarks/results
	$(BIN)/longspan bench char-lm --out benchmarks/results
	$(BIN)/longspan bench led --out benchmarks/results
	$(BIN)/longspan bench kinds --out benchmarks/results

clean:
	rm -rf .venv build dist site src/*.egg-info
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/longspan/attention/*.so src/longspan/attention/native_build.txt
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
