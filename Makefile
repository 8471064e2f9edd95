# make lab    set up, then open JupyterLab on the first notebook
# make test   set up, then run every kind of claim: unit tests, graders, browser, notebooks
# make test-more  what claims the same once more, at more cost: all answers, all attacks, the notebooks as on CUDA, lessons with tasks done
# make test-all  both
# make check  the quick inner loop: lint and the unit tests that are not slow; no kernels, no browser, no notebooks
# make nbval-cuda  the notebooks as on a machine with two GPUs, which simulated ones stand in for
# make types  no room has more errors of types than tools/type_errors.toml states (half a minute)
# make setup-hub  set up what a class on one machine needs; then: .venv/bin/course hub CLASS --students FILE
# make site   set up, then write the course as static pages to build/site; lessons run first, once
# make labs   generate labs/ from solutions/
# make constraints  write constraints.txt by what pyproject.toml requires; with UV_ARGS=--upgrade by the newest versions
# make clean  remove the environment

PYTHON ?= python3
BIN := .venv/bin
SOURCES = $$PWD:$$PWD/utils/simgpu/src
# Programs are run as modules, and `utils` is this folder's: an environment may be a link, and shared with another copy.
LAB_ARGS ?=
UV_ARGS ?=
PYTEST = $(BIN)/python -m pytest -n auto --dist loadgroup
# One cell may take this many seconds before nbval calls it stuck (its own default is 2000).
CELL_TIMEOUT ?= 300
# Where this is set, as in many container images, each process compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# One thread a kernel: several run at once, one notebook in each.
NBVAL = PYTHONPATH="$(SOURCES)" OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout=$(CELL_TIMEOUT) -p no:cacheprovider -p tools.nbval_kernels
# The last labs take longest: first, so that no process is left with one at the end.
NOTEBOOKS = $$(ls -r notebooks/*.ipynb solutions/*/*.ipynb)
CUDA_NOTEBOOKS ?= $$(ls -r notebooks/0[!58]*.ipynb notebooks/1*.ipynb solutions/*/*.ipynb)
NBVAL_CUDA = $(subst tools.nbval_kernels,tests.support.as_cuda,$(NBVAL))

.DEFAULT_GOAL := help
.PHONY: help full-copy setup setup-test setup-hub setup-site constraints lab test test-more test-all check types labs nbval nbval-cuda site clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# The zip that students get has the lessons and the labs, and not what tests them.
full-copy:
	@test -d tests/unit || { echo "make: this copy of the course is for learning, and has not all that this needs: make lab" >&2; exit 1; }

setup:
	@$(PYTHON) tools/bootstrap.py lab

setup-test:
	@$(PYTHON) tools/bootstrap.py test

setup-hub:
	@$(PYTHON) tools/bootstrap.py hub

setup-site:
	@$(PYTHON) tools/bootstrap.py site

constraints: full-copy
	@$(PYTHON) tools/bootstrap.py constraints $(UV_ARGS)

lab: setup
	PYTHONPATH="$(SOURCES)" $(BIN)/python -m jupyterlab --config=tools/jupyter_lab_config.py $(LAB_ARGS) notebooks/00_start_here.ipynb

test: full-copy setup-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python tools/check_types.py
	$(PYTEST) --durations=40 -m "not thorough" tests utils/simgpu/tests
	$(NBVAL) $(NOTEBOOKS)

# The lessons that ask for two devices. Others have simulated ones there, too; nbval-cuda runs all, and the labs.
test-more: full-copy setup-test
	$(MAKE) nbval-cuda CUDA_NOTEBOOKS="$$(grep -l 'devices(2' $$(ls -r notebooks/0[!58]*.ipynb notebooks/1*.ipynb) | xargs)"
	$(PYTEST) --durations=40 -m thorough tests utils/simgpu/tests
	$(BIN)/python tools/solved_lessons.py build/solved_lessons
	$(NBVAL) $$(ls -r build/solved_lessons/*.ipynb)

test-all: test test-more

check: full-copy setup-test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(PYTEST) -q -m "not slow and not thorough" tests/unit utils/simgpu/tests

types: full-copy setup-test
	$(BIN)/python tools/check_types.py

nbval: full-copy setup-test
	$(BIN)/python tools/solved_lessons.py build/solved_lessons
	$(NBVAL) $(NOTEBOOKS) build/solved_lessons

# Lessons 05 and 08 have so much to do on real GPUs that their stand-ins keep shapes only. The page for two real GPUs
# goes to and fro between real and simulated ones, and there is one machine of those.
nbval-cuda: full-copy setup-test
	$(NBVAL_CUDA) $(CUDA_NOTEBOOKS)
	COURSE_STAND_IN_COMPUTE=0 $(NBVAL_CUDA) notebooks/05* notebooks/08*

site: full-copy setup-site
	$(BIN)/python tools/build_site.py

labs: full-copy setup
	$(BIN)/python -m utils.course release

clean:
	rm -rf .venv
