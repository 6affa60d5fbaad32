# Every line calls a tool; the work is done in deploy/ and course_lib/.
# PYTHON=python3.12        another interpreter for .venv
# TORCH_WHEELS=URL|FOLDER  another place to take torch from (a CPU or CUDA wheel index)
# BROWSER=none             lab: print the address and serve, open nothing
# SITE=recorded            lab: recorded runs stand in for jobs; or the name of a preset
# FILES="tests/box"        test: only these
# WORKERS=1                test: so many at the same time
# ALL=1                    test: all cases, also of tests that have many of one kind
# RUN=course-run-abc       book, slides: the workspace in which `make course` ran; default: the newest here
#                          pages: the same; default: recorded runs
# TRANSLATION=ko           course, book, slides: in this language
# OPEN_AT=URL              book: where readers open a notebook, with {notebook} in it

PYTHON ?= python3
TORCH_WHEELS ?=
FILES ?= tests notebooks solutions
# Tests often wait for jobs and browsers, so three workers keep two cores busy.
WORKERS ?= 3
ALL ?=
RUN ?=
SITE ?=
OPEN_AT ?=
TRANSLATION ?=
export PYTHON TORCH_WHEELS
BIN := .venv/bin

.PHONY: setup tools lab test lint course slurm slurm-stop hub notebooks book slides pages picture

setup:
	@bash deploy/setup.sh

tools:
	@bash deploy/packages.sh requirements-dev.lock

lab: setup
	@BROWSER=$(BROWSER) COURSE_SITE=$(SITE) bash deploy/lab.sh

lint: tools
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

test: tools
	@$(if $(ALL),COURSE_TEST_ALL=1) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	    -p course_lib.publish.nbval_checks --nbval-lax --nbval-cell-timeout=600 $(FILES)

course: setup
	@$(BIN)/course run $(if $(TRANSLATION),--language '$(TRANSLATION)')

slurm: setup
	@bash deploy/slurm/start.sh

slurm-stop:
	@bash deploy/slurm/stop.sh

hub:
	@bash deploy/jupyterhub/setup.sh

notebooks: setup
	@$(BIN)/course build

book:
	@bash deploy/packages.sh deploy/book/requirements.lock
	@$(BIN)/course book $(if $(RUN),--workspace '$(RUN)') $(if $(OPEN_AT),--open-at '$(OPEN_AT)') \
	    $(if $(TRANSLATION),--language '$(TRANSLATION)')

slides:
	@bash deploy/slides/setup.sh
	@$(BIN)/course slides $(if $(RUN),--workspace '$(RUN)') $(if $(TRANSLATION),--language '$(TRANSLATION)')

pages: setup
	@RUN='$(RUN)' bash deploy/pages/build.sh

picture: tools
	@bash deploy/packages.sh deploy/book/requirements.lock
	@rm -rf build/picture
	@COURSE_SITE=recorded $(BIN)/course run 03 --workspace build/picture
	@$(BIN)/course book --workspace build/picture --out build/picture/book
	@$(BIN)/python images/lesson.py build/picture build/picture/book
