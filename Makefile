# make install   sets up .venv; every other target does so first
# make demo      trains a small model on a corpus that it makes itself, and translates: one to three minutes on two cores
# make test      the fast tests: five and a half minutes on two slow cores, less on others
#                make test PART=2/90: also a ninetieth of the slow ones and a quarter of those that last seconds, as CI does
# make test-isa  the tests of numbers as on lesser processors, without and with AVX2: one minute
# make soak      all other tests, or with PART those of that part
# make lint      format, style, types: half a minute
# make results   writes the pages of results from the ledger; make diagrams: those of docs/diagrams; make bench: the benchmarks
# make browser-test      drives the studio and an exported page in the Chromium that is installed (CHROMIUM=/usr/bin/chromium): five minutes
#                        Debian, Ubuntu: apt-get install chromium; Fedora: dnf install chromium; macOS: brew install chromium
# make vendor-codemirror makes the studio's copy of CodeMirror anew; it needs Node and npm packages
# make docs      builds the documentation site in build/site; a broken link is an error: seconds
# make clean     removes what these have made, runs excepted
#
# TORCH=cpu      (default) the pinned torch. On an index whose torch carries CUDA, for instance PyPI on Linux, gigabytes are
#                saved by TORCH_INDEX=https://download.pytorch.org/whl/cpu
# TORCH=cuda     the newest torch of the default index
# TORCH=keep     the torch that PYTHON has already
# These are read when .venv is made: after a change, `make clean` first.

PYTHON ?= python3
TORCH ?= cpu
TORCH_INDEX ?=
JOBS ?= 2

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
STAMP := .venv/.installed
PART ?=
# One thread for each of the test processes; results do not depend on it. Tests start hundreds of processes: bytecode is kept for
# them, whatever the environment says.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
# The tests whose products are oneDNN's or Calque's own: those in float64 are neither.
PRODUCTS := tests/decode/test_products.py tests/native tests/train/test_optimise.py
# The tests whose results depend on how the processor rounds.
NUMERIC := tests/decode/test_products.py tests/reference tests/contract/test_laws.py tests/train/test_optimise.py -k 'not compositions and not shapes'

ifeq ($(TORCH),cpu)
VENV_OPTIONS :=
TORCH_INSTALL := $(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
else ifeq ($(TORCH),cuda)
VENV_OPTIONS :=
TORCH_INSTALL := $(PIP) install 'torch>=2.9'
else ifeq ($(TORCH),keep)
VENV_OPTIONS := --system-site-packages
TORCH_INSTALL := $(BIN)/python -c 'import torch' 2> /dev/null \
	|| { echo "TORCH=keep, and $(PYTHON) has no torch" >&2; exit 1; }
else
$(error TORCH: expected cpu, cuda or keep, found $(TORCH))
endif

.PHONY: docs install demo test test-isa soak browser-test vendor-codemirror lint results diagrams bench clean

install: $(STAMP)
	@:

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "calque needs Python 3.11 or newer: name one, as in make PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up .venv (torch: $(TORCH)); this can take minutes"
	@$(PYTHON) -m venv $(VENV_OPTIONS) .venv
	@$(TORCH_INSTALL)
	@# The pins of torch and of the Triton that comes with it are for TORCH=cpu; elsewhere what was just installed, or found, stays.
	@sed -e '$(if $(filter cpu,$(TORCH)),,/^t\(orch\|riton\)==/d)' constraints.txt > .venv/constraints.txt
	@$(PIP) install -c .venv/constraints.txt -e '.[test]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/calque demo

test: $(STAMP)
	@CALQUE_PART=$(PART) $(PYTEST) $(if $(PART),-m '')

test-isa: $(STAMP)
	@ATEN_CPU_CAPABILITY=default CALQUE_NATIVE=off $(PYTEST) $(NUMERIC)
	@# A processor that has AVX2 and nothing after it runs these in `make test` just so.
	@! grep -qs avx2 /proc/cpuinfo || ! grep -q -e avx512 -e avx_vnni /proc/cpuinfo \
		|| ONEDNN_MAX_CPU_ISA=AVX2 CALQUE_NATIVE=avx2 $(PYTEST) $(PRODUCTS)

soak: $(STAMP)
	@CALQUE_PART=$(PART) $(PYTEST) -m 'slow or medium'

# Playwright drives the browser that is installed; it downloads none.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
browser-test: $(STAMP)
	@test -n "$(CHROMIUM)" || { echo "no Chromium is installed: install the package chromium, or name one in CHROMIUM" >&2; exit 1; }
	@$(PIP) install -c .venv/constraints.txt -e '.[browser]'
	@CALQUE_BROWSER="$(CHROMIUM)" CALQUE_PLAY_SECONDS=$${CALQUE_PLAY_SECONDS:-120} \
		$(BIN)/python -m pytest -m slow tests/studio/test_studio_browser.py
	@npm install --prefix build/web --no-audit --no-fund --silent onnxruntime-web@1.30
	@CALQUE_BROWSER="$(CHROMIUM)" CALQUE_RUNTIME=build/web/node_modules/onnxruntime-web \
		$(BIN)/python -m pytest -m slow tests/exchange/test_web_browser.py

VENDOR := src/calque/studio/page/vendor
vendor-codemirror:
	@mkdir -p build/codemirror
	@cp $(VENDOR)/package.json $(VENDOR)/entry.js $(VENDOR)/build.mjs build/codemirror
	@cd build/codemirror && npm install --no-audit --no-fund --silent && node build.mjs $(CURDIR)/$(VENDOR)

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

results: $(STAMP)
	@$(BIN)/calque reproduce report --all --docs docs

docs: $(STAMP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet

diagrams: $(STAMP)
	@find docs/diagrams -name '*.svg' -printf '%P\n' | sort | while read -r file; do \
		$(BIN)/calque explain "$${file%.svg}" --diagram "docs/diagrams/$$file" || exit 1; \
	done

# Those that need a trained run, or hours, are called by hand: each says how at its top.
bench: $(STAMP)
	@$(BIN)/calque bench machine --threads 1 --table
	@$(BIN)/calque bench start
	@$(BIN)/python benchmarks/step_floor.py
	@$(BIN)/python benchmarks/flat_steps.py

clean:
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
