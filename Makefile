# make demo, make test: everything from a bare checkout. Needs Python >= 3.11, pip and a C compiler.

PYTHON ?= python3
PYTEST_ARGS ?=
# make fuzz CASES=20000 SEED=1, or one of these: make fuzz SEED=1 CASE=123
CASES ?= 20000
SEED ?= 0
CASE ?=

VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(shell find sklearn_onlineem -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
RECIPE := pyproject.toml setup.py
# make test SANITIZE=address, SANITIZE=undefined, or both with a comma: the debug build, with GCC's
# sanitizers. Python has to load that of addresses first, and leaks at exit are the interpreter's.
# That of threads does not see how those of OpenMP wait: make test-threads SANITIZE=thread.
SANITIZE ?=
comma := ,
SANITIZERS := $(subst $(comma), ,$(SANITIZE))
DEBUG := $(or $(filter-out 0,$(SKLEARN_ONLINEEM_DEBUG)),$(SANITIZERS))
BUILT := $(VENV)/built$(if $(DEBUG),-debug)$(if $(WORLD),-portable)$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
ifneq ($(SANITIZERS),)
export SKLEARN_ONLINEEM_DEBUG := 1
export SKLEARN_ONLINEEM_SANITIZE := $(SANITIZE)
LOADED := $(or $(if $(filter address,$(SANITIZERS)),asan),$(if $(filter thread,$(SANITIZERS)),tsan))
SANITIZED := ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	$(if $(LOADED),LD_PRELOAD="$(shell $(CC) -print-file-name=lib$(LOADED).so)")
endif

# Of laws of many cases, one in so many runs, and others in other worlds; make test ONE_IN=1: all.
ONE_IN ?= 8
export SKLEARN_ONLINEEM_TEST_ONE_IN := $(ONE_IN)
# make test WORLD=1: as on an old processor, without the clones of kernels, on one thread of BLAS. Tests
# draw other data, in another order and in other cases, by this number. NumPy before 2.4 and since has
# other names for what is switched off.
WORLD ?=
ifneq ($(WORLD),)
export SKLEARN_ONLINEEM_TEST_SEED := $(WORLD)
export SKLEARN_ONLINEEM_PORTABLE := 1
export OPENBLAS_CORETYPE := $(if $(filter %1 %3 %5 %7 %9,$(WORLD)),Nehalem,Sandybridge)
export OPENBLAS_NUM_THREADS := 1
export NPY_DISABLE_CPU_FEATURES := AVX2 FMA3 X86_V3 X86_V4
endif

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Processes that tests start would compile the package each, and the next run all tests again.
unexport PYTHONDONTWRITEBYTECODE

# $(call install,KEYS): install a list of requirements that stands in pyproject.toml.
install = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))$(1), sep='\n')" \
	| $(BIN)/python -m pip install --quiet --requirement /dev/stdin

.PHONY: demo test test-minima test-threads test-rivals rivals test-spark spark fuzz lint format doctest doc doc-check release-check conda speed clean distclean

demo: $(BUILT)
	$(BIN)/python examples/streams/plot_moving_stream.py build/demo

test: $(BUILT) $(VENV)/extra-test $(VENV)/extra-river
	$(SANITIZED) $(BIN)/python -m pytest --numprocesses 2 $(PYTEST_ARGS)

# In an environment of its own: gigabytes, and libraries that hold back others.
test-rivals:
	$(MAKE) rivals VENV=.venv-rivals

# In an environment of its own, too: hundreds of megabytes. It needs Java.
test-spark:
	$(MAKE) spark VENV=.venv-spark

# $(call copy_source,FOLDER): to build there with other versions; nothing that was built goes along.
define copy_source
@mkdir $(1)
@cp -R *.toml *.py *.md LICENSE CITATION.cff Makefile doc examples sklearn_onlineem tests benchmarks $(1)
@find $(1) -name '*.so' -delete
endef
build_requires = $(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')"

# The declared minimum versions, on what the sdist has: its kernels are built with these, too. Of the
# tests, the fast half that asks most of other libraries: each room by itself, and laws on input, but no
# clusters. In WORLD=1 these are cases that `make test` leaves out.
MINIMA := .venv-minima
INPUT := array_likes data_frames estimators html missing_forms scikit_learn_checks sequences \
	sparse_input storage
MINIMA_TESTS ?= $(addprefix tests/,displays em estimators families kernels models) \
	$(filter-out %/test_dask.py,$(wildcard tests/distributed/test_*.py)) \
	$(INPUT:%=tests/laws/test_%.py)
test-minima:
	@$(PYTHON) -m venv --clear $(MINIMA)
	@$(PYTHON) .ci/minima.py > $(MINIMA)/constraints.txt
	@echo 'building and installing into $(MINIMA), with the oldest versions that are declared'
	@$(build_requires) > $(MINIMA)/requires.txt
	@PIP_CONSTRAINT=$(MINIMA)/constraints.txt \
	  $(MINIMA)/bin/python -m pip install --quiet --prefer-binary --requirement $(MINIMA)/requires.txt
	@SKLEARN_ONLINEEM_BUILT=1 $(MINIMA)/bin/python setup.py --quiet sdist --dist-dir $(MINIMA)
	@mkdir $(MINIMA)/source && tar -xzf $(MINIMA)/*.tar.gz -C $(MINIMA)/source --strip-components 1
	@cd $(MINIMA) && export PIP_CONSTRAINT=$$PWD/constraints.txt && \
	  (cd source && ../bin/python setup.py --quiet build_ext --inplace) && \
	  SKLEARN_ONLINEEM_BUILT=1 bin/python -m pip install --quiet --prefer-binary --no-build-isolation --editable 'source[test]'
	cd $(MINIMA)/source && ../bin/python -m pytest --numprocesses 2 $(PYTEST_ARGS) $(MINIMA_TESTS)

# Without rivals and data frames, which are not to be had for Pythons without a global lock.
THREADS := .venv-threads
test-threads:
	@$(PYTHON) -m venv --clear $(THREADS)
	$(call copy_source,$(THREADS)/source)
	@echo 'building and installing into $(THREADS)'
	@$(build_requires) > $(THREADS)/requires.txt
	@cd $(THREADS) && \
	  bin/python -m pip install --quiet pytest --requirement requires.txt && \
	  (cd source && ../bin/python setup.py --quiet build_ext --inplace) && \
	  SKLEARN_ONLINEEM_BUILT=1 bin/python -m pip install --quiet --no-build-isolation --editable source
	cd $(THREADS)/source && OPENBLAS_NUM_THREADS=1 $(SANITIZED) \
	  ../bin/python -m pytest --capture=sys -m threads $(PYTEST_ARGS) $$(grep -rl --include='*.py' 'mark[.]threads' tests)

rivals: $(BUILT) $(VENV)/extra-rivals
	$(BIN)/python -m pytest --numprocesses 0 -m rivals $(PYTEST_ARGS)

spark: $(BUILT) $(VENV)/extra-test $(VENV)/extra-spark
	$(BIN)/python -m pytest --numprocesses 0 -m spark $(PYTEST_ARGS) tests/distributed/test_spark.py

# OpenBLAS would start threads in each worker, and Python would hide small blocks from the sanitizer.
fuzz: $(BUILT) $(VENV)/extra-test
	PYTHONPATH=.:tests OPENBLAS_NUM_THREADS=1 $(if $(SANITIZE),PYTHONMALLOC=malloc) $(SANITIZED) \
		$(BIN)/python -m fuzz --seed $(SEED) $(if $(CASE),--case $(CASE),--cases $(CASES))

# What a reader runs gives no warning that the text does not show.
doctest: $(BUILT) $(VENV)/extra-test $(VENV)/extra-river
	$(SANITIZED) $(BIN)/python -m pytest --numprocesses 2 -W error --doctest-modules --doctest-glob '*.rst' \
		--doctest-glob '*.md' sklearn_onlineem README.md doc/*.rst doc/guide/*.rst

lint: $(VENV)/extra-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PATH="$(BIN):$$PATH" cython-lint sklearn_onlineem
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.typed_figures
	$(BIN)/python .ci/check_prose.py
	$(BIN)/codespell sklearn_onlineem doc benchmarks examples .ci *.md

format: $(VENV)/extra-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

doc: $(BUILT) $(VENV)/extra-doc
	$(BIN)/python -m sphinx -W --keep-going -b html doc doc/_build/html
	$(BIN)/python -m sphinx -b text -Q doc doc/_build/html
	$(BIN)/python doc/check_html.py doc/_build/html

# Pages as a reader sees them, in a Chromium that is installed.
doc-check: doc
	$(BIN)/python doc/check_browser.py doc/_build/html

# What a release needs: sdist and wheel, made and installed where nothing else is, and a version that
# the tag TAG, the changelog and the citation have, too.
release-check:
	PYTHON="$(PYTHON)" .ci/check_distributions
	$(PYTHON) .ci/check_version.py $${TAG:+"$$TAG"}

# The conda package of the sdist in dist/, with Linux on x86-64 and the channel conda-forge.
conda:
	$(PYTHON) -m venv --clear build/conda
	build/conda/bin/python -m pip install --quiet --require-hashes --requirement .ci/conda.txt
	build/conda/bin/python .ci/build_conda.py dist/*.tar.gz

# CPU time on one thread, here and at another commit: make speed BASE=main. It fails if this takes
# longer on average than the noise of a shared machine explains.
BASE ?= main
speed: $(BUILT)
	rm -rf build/base && mkdir -p build/base
	git archive $(BASE) | tar -x -C build/base
	cd build/base && ../../$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python -m benchmarks.speed.builds build/base --least 0.95

clean:
	rm -rf build dist *.egg-info $(VENV)/built*
	rm -rf doc/_build doc/auto_examples doc/generated doc/sg_execution_times.rst examples/build
	find sklearn_onlineem -name '*.so' -delete

distclean: clean
	rm -rf $(VENV) .venv-minima .venv-rivals .venv-spark .venv-threads

$(VENV)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	@echo 'creating $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Installed anew at first, when the recipe changes, and when the debug build or a sanitizer is
# switched on or off; when only kernels changed, these are rebuilt in place.
define install_package
@echo 'building and installing into $(VENV); this takes a minute or two on an idle machine'
@rm -rf build $(VENV)/built*
@find sklearn_onlineem -name '*.so' -delete
@$(call install,['build-system']['requires'])
@$(BIN)/python setup.py --quiet build_ext --inplace
@echo 'installing what the package needs'
@SKLEARN_ONLINEEM_BUILT=1 $(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[plot,progress]'
endef

$(BUILT): $(VENV)/venv $(RECIPE) $(KERNELS)
	$(if $(filter $(VENV)/venv $(RECIPE),$?),$(install_package),$(BIN)/python setup.py --quiet build_ext --inplace)
	@touch $@

$(VENV)/extra-%: pyproject.toml | $(BUILT)
	@echo "installing what '$*' needs"
	@$(call install,['project']['optional-dependencies']['$*'])
	@touch $@
