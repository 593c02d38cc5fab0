# `make` alone lists what there is.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LAB    := $(VENV)/.lab
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*##.*/\1/p' $(firstword $(MAKEFILE_LIST)))
.DEFAULT_GOAL := help

help:  ## what there is to do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

setup: $(STAMP)  ## make .venv with the tested set of packages (constraints.txt)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[lab,dev,server,metrics,budget]'
	touch $(LAB) $(STAMP)

$(LAB): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[lab]'
	touch $(LAB)

demo: $(LAB)  ## compare the methods on embedded data, in about a minute
	$(BIN)/sortition demo

test: setup  ## all tests
	$(BIN)/python -m pytest -n auto

test-portable: setup  ## other processors' kernels, odd folders, offline, one core, random order, another user
	$(BIN)/python -m campaign portable

test-flower: setup  ## install Flower and Ray, and test the adapter against Flower itself, in about ten minutes
	$(INSTALL) --editable '.[lab,dev,flower,ray]'
	$(BIN)/python -m pytest -m 'flower or not flower' tests/flower tests/campaign/test_fuzz.py

test-flower-matrix: setup  ## every method with every kind of model and every Flower strategy, in about ten minutes
	$(INSTALL) --editable '.[lab,dev,flower]'
	$(BIN)/python -m tests.flower.matrix --page docs/flower.md

test-nvflare: setup  ## install NVFlare and Flower; every method in NVFlare's simulator, processes that are killed: a quarter of an hour
	$(INSTALL) --editable '.[lab,dev,flower,nvflare]'
	$(BIN)/python -m pytest -m 'nvflare or not nvflare' tests/nvflare

test-server: setup  ## a server of one's own over HTTP, with a hundred devices that come and go, in about a minute
	$(BIN)/python -m pytest -m 'server or not server' tests/federation

test-prometheus: setup  ## dashboard, alerts and endpoints with Debian's promtool and a real Prometheus (apt-get install prometheus)
	command -v prometheus promtool
	$(INSTALL) --editable '.[lab,dev,flower,metrics]'
	$(BIN)/python -m pytest tests/federation/test_prometheus.py tests/federation/test_monitoring.py tests/flower/test_live_metrics.py

test-ray: setup  ## install Ray, and run a study on a cluster of two nodes of which one is killed, in some minutes
	$(INSTALL) --editable '.[lab,dev,ray]'
	$(BIN)/python -m pytest -m ray tests/studies/workers/test_ray_cluster.py

check: setup  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-check: setup  ## has the engine become slower than its stored ratios? some minutes, for releases
	$(BIN)/python benchmarks/check.py

bench: setup  ## the benchmarks that are quick enough to run now and then
	$(BIN)/python benchmarks/selection.py

soak: setup  ## every method under random faults: a thousand runs in about a quarter of an hour (SECONDS=… FIRST=…)
	$(BIN)/python -m campaign soak --seconds $(or $(SECONDS),900) --first $(or $(FIRST),0)

docs: setup  ## build the documentation into docs/_build/html; warnings are errors
	$(INSTALL) --editable '.[lab,dev,docs]'
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

dist: setup  ## build sdist and wheel, and run the demo from the wheel in a new environment without the sources
	$(INSTALL) build twine
	rm -rf dist build/wheel && $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(echo dist/*.whl)[lab]"
	build/wheel/bin/python -I -c "import sortition; assert 'site-packages' in sortition.__file__, sortition.__file__"
	cd build && rm -rf demo && env -u PYTHONPATH wheel/bin/sortition demo --out demo --seeds 2 --rounds 5

pages: setup  ## write the generated pages and tables that are kept in docs
	$(BIN)/python -m workshop pages
	$(BIN)/python -m workshop notebooks
	$(BIN)/python -m workshop reproduction

leaderboard: setup  ## write docs/leaderboard.md and the README's table (RUNS=… first takes the runs of that folder)
	$(BIN)/python -m workshop leaderboard $(if $(RUNS),--runs $(RUNS))

leaderboard-2: setup  ## write docs/leaderboard-2.md, the board and its picture, from the results in docs/leaderboard-2
	$(BIN)/python -m workshop leaderboard-2

screenshots: setup  ## make the pictures of docs/images: methods, partitions, and the demo's report (needs Chromium, and fashion-mnist)
	$(BIN)/python -m workshop pictures
	$(BIN)/python -m workshop metrics
	$(BIN)/python benchmarks/galleries.py docs/images
	test -d demo/runs || $(BIN)/sortition demo
	$(BIN)/python -m workshop screenshots

clean:  ## remove what these targets made
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis dist build demo
