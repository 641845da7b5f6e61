# What a person runs here. `make` lists it.
#
# Every target installs what it needs: Debian packages with apt (as root, or with sudo), Go modules and crates by
# name. Nothing else is downloaded.

SHELL := /bin/bash
TOOLS := $(CURDIR)/.tools
PROFILE ?= release
CARGO ?= cargo
APT_BUILD := ca-certificates gcc libc6-dev cmake clang libclang-dev pkg-config fuse3
APT_TEST := $(APT_BUILD) attr fish git iproute2 libpython3.11-testsuite procps python3 python3-gdbm python3-hypothesis rpm rsync \
  stress-ng systemd zsh
APT_PACKAGING := binutils gzip rpm
# Programs that the tests have write into a mount.
APT_PROGRAMS := ed patch vim-tiny python3-h5py python3-packaging python3-pandas python3-torch python3-venv unzip
WHEELS := pyarrow==25.0.1 safetensors==0.8.0
# More of them, for `make test-more-programs` alone.
APT_MORE_PROGRAMS := imagemagick python3-venv rsync $(if $(shell command -v npm),,npm)
MORE_WHEELS := datasets==5.2.0 duckdb==2.0.0 imageio-ffmpeg==0.8.1 polars==2.1.0 pyarrow==26.0.1 tables==3.11.1 tensorboard==2.21.0 \
  webdataset==1.0.2 zarr==3.1.6
# PyTorch needs 2.5 GB of CUDA's libraries; with stubs of them its own wheel of 540 MB suffices. What it needs beside:
TORCH_WHEELS := litdata==0.2.76 torch==2.15.0 torchvision==0.29.2
TORCH_NEEDS := boto3 filelock fsspec jinja2 lightning-utilities networkx numpy obstore requests sympy tifffile typing-extensions
# Test programs of other projects, for `make test-suites` alone.
APT_SUITES := bonnie++ dbench fio postmark
APT_BENCH := $(APT_BUILD) libfuse3-dev fio python3 iproute2 fonts-dejavu-core
# All targets build the same things: other packages or kinds would mean other features, and all crates built again.
BUILD := $(CARGO) build --locked --workspace --bins --examples
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PROFILE_DIR := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))

# Pinned, so that a release of a server breaks no test of ours.
MINIO := github.com/minio/minio
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c
VERSITYGW := github.com/versity/versitygw/cmd/versitygw
VERSITYGW_VERSION := v1.8.0
GOFAKES3 := github.com/johannesboyne/gofakes3/cmd/gofakes3
GOFAKES3_VERSION := v1.2.0
MOTO := moto[server]==5.1.16
S3PROXY := org.gaul:s3proxy:2.6.0:jar:jar-with-dependencies
S3MOCK := com.adobe.testing:s3mock:4.7.0:jar:exec
CARGO_DENY_VERSION := 0.20.2
CARGO_FUZZ_VERSION := 0.13.2
CARGO_MUTANTS_VERSION := 27.1.0
CARGO_CYCLONEDX_VERSION := 0.5.9

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# A network that fails for a moment fails nothing: each fetch is tried again a few times.
TRIES := 5
APT_GET := $(SUDO) apt-get -o Acquire::Retries=$(TRIES) -o DPkg::Lock::Timeout=300
export CARGO_NET_RETRY ?= $(TRIES)
export RUSTUP_MAX_RETRIES ?= $(TRIES)

# Installs those of the named Debian packages that are missing.
define apt_install
	@missing=(); for package in $(1); do \
	  dpkg-query -W -f '$${Status}' "$$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$$package"); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	  echo "installing $${missing[*]}"; \
	  $(APT_GET) update -qq && $(APT_GET) install -y -qq --no-install-recommends "$${missing[@]}"; fi
endef

.PHONY: packages
packages: ## Install the Debian packages that building and mounting need
	$(call apt_install,$(APT_BUILD))
	@test -e /dev/fuse || { echo "there is no /dev/fuse: load the kernel module with 'modprobe fuse'" >&2; exit 1; }

.PHONY: build
build: packages ## Build mount-s3 into target/release
	$(BUILD) --profile $(PROFILE)

.PHONY: demo
demo: packages ## Mount a bucket of an embedded S3 server and look around (CHECK=1: verify and exit)
	$(BUILD) --profile $(PROFILE)
	@target/$(PROFILE_DIR)/examples/demo $(if $(CHECK),--check)

.PHONY: install
install: build ## Install mount-s3 into /usr/local/bin
	$(SUDO) install -s -m 0755 target/$(PROFILE_DIR)/mount-s3 /usr/local/bin/mount-s3

PACKAGES := target/packages

.PHONY: packaging-packages
packaging-packages: packages
	$(call apt_install,$(APT_PACKAGING))

.PHONY: deb
deb: build packaging-packages ## Build the Debian package into target/packages
	mountpoint-fs/packaging/deb.sh target/$(PROFILE_DIR)/mount-s3 $(PACKAGES)

.PHONY: rpm
rpm: build packaging-packages ## Build the RPM package into target/packages
	mountpoint-fs/packaging/rpm.sh target/$(PROFILE_DIR)/mount-s3 $(PACKAGES)

.PHONY: tarball
tarball: build packaging-packages ## Pack binary, manual and completions into target/packages
	mountpoint-fs/packaging/tarball.sh target/$(PROFILE_DIR)/mount-s3 $(PACKAGES)

.PHONY: sbom
sbom: packages ## List the crates that are linked in as CycloneDX JSON, into target/packages
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install --locked cargo-cyclonedx@$(CARGO_CYCLONEDX_VERSION)
	mountpoint-fs/packaging/sbom.sh $(PACKAGES)

# Sources and the folder they lie in are the same for everybody inside the binary.
release: export RUSTFLAGS := --remap-path-prefix=$(CURDIR)=. --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo
release: export CFLAGS := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo
.PHONY: release
release: ## Build every package, the list of crates and SHA256SUMS into an empty target/packages
	@[ -z "$$(git status --porcelain)" ] || { echo "commit first: a release is built from what is committed" >&2; exit 1; }
	rm -rf $(PACKAGES)
	$(MAKE) deb rpm tarball sbom PROFILE=release
	cd $(PACKAGES) && sha256sum * > SHA256SUMS && cat SHA256SUMS

.PHONY: container
container: ## Build a container image with docker or podman (CONTAINER=podman)
	$(or $(CONTAINER),docker) build --file mountpoint-fs/packaging/Containerfile --tag mount-s3 .

.PHONY: test-packages
test-packages: packages
	$(call apt_install,$(APT_TEST))

.PHONY: program-packages
program-packages:
	$(call apt_install,$(APT_PROGRAMS))

.PHONY: test-programs
test-programs: $(TOOLS)/python/installed ## Install the programs that the tests have write: torch, pandas, pyarrow, editors

# Beside Debian's packages, the wheels that Debian has not: the newest pyarrow that takes the NumPy of its torch and pandas.
$(TOOLS)/python/installed: Makefile | program-packages
	rm -rf $(TOOLS)/python && /usr/bin/python3 -m venv --system-site-packages $(TOOLS)/python
	$(TOOLS)/python/bin/pip install --quiet --retries $(TRIES) --only-binary :all: $(WHEELS)
	touch $@

$(TOOLS)/more-programs/installed: Makefile
	$(call apt_install,$(APT_MORE_PROGRAMS))
	rm -rf $(TOOLS)/more-programs && /usr/bin/python3 -m venv $(TOOLS)/more-programs
	$(TOOLS)/more-programs/bin/pip install --quiet --retries $(TRIES) --only-binary :all: $(MORE_WHEELS)
	$(TOOLS)/more-programs/bin/pip download --quiet --retries $(TRIES) --dest $(TOOLS)/more-programs/wheels six==1.17.0
	@# Unpacked and not installed: the package would start a server of its own.
	mkdir $(TOOLS)/more-programs/nginx && cd $(TOOLS)/more-programs/nginx && \
	  apt-get -qq -o Acquire::Retries=$(TRIES) -o APT::Sandbox::User=root download nginx && dpkg -x nginx_*.deb .
	touch $@

$(TOOLS)/torch/installed: Makefile mountpoint-fs/tests/torch_without_cuda.py | packages
	$(call apt_install,binutils python3-venv)
	rm -rf $(TOOLS)/torch && /usr/bin/python3 -m venv $(TOOLS)/torch
	$(TOOLS)/torch/bin/pip install --quiet --retries $(TRIES) --only-binary :all: --no-deps $(TORCH_WHEELS)
	$(TOOLS)/torch/bin/pip install --quiet --retries $(TRIES) --only-binary :all: $(TORCH_NEEDS)
	mountpoint-fs/tests/torch_without_cuda.py $(TOOLS)/torch/lib/python3*/site-packages/torch/lib
	touch $@

.PHONY: test-more-programs
test-more-programs: test-packages test-programs $(TOOLS)/more-programs/installed $(TOOLS)/torch/installed ## More programs in a mount: polars, ffmpeg, nginx, npm and others, no part of make test
	@command -v go >/dev/null || { echo "go build is one of the programs: install Go" >&2; exit 1; }
	MOUNTPOINT_TEST_SERVERS=$(TOOLS) $(CARGO) test --locked --workspace --test e2e -- \
	  --ignored --nocapture more_programs staged_programs

# Test programs for file systems, pinned like the servers.
FSX_VERSION := 0.3.2
PJDFSTEST_VERSION := 0.2.2

$(TOOLS)/bin/fsx:
	$(CARGO) install --quiet --locked --root $(TOOLS) fsx@$(FSX_VERSION)

$(TOOLS)/bin/pjdfstest:
	$(call apt_install,libacl1-dev)
	$(CARGO) install --quiet --locked --root $(TOOLS) pjdfstest@$(PJDFSTEST_VERSION)

.PHONY: test-thorough
test-thorough: test-packages $(TOOLS)/bin/fsx $(TOOLS)/bin/pjdfstest ## A million operations of fsx, pjdfstest and a million compared with a model, in each mode of writing, no part of make test
	MOUNTPOINT_TEST_SERVERS=$(TOOLS) $(CARGO) test --locked --workspace --test e2e -- --ignored --nocapture staged::thorough

HOURS ?= 8

.PHONY: soak
soak: test-packages ## A mixed load with faults and kills for HOURS=8, no part of make test (SOAK_SECONDS=1200, SEED=7, FAULTS=harsh)
	MOUNTPOINT_TEST_SOAK_SECONDS=$(or $(SOAK_SECONDS),$$(( $(HOURS) * 3600 ))) MOUNTPOINT_TEST_SOAK_SEED=$(SEED) \
	  MOUNTPOINT_TEST_SOAK_FAULTS=$(FAULTS) $(CARGO) test --locked --workspace --test e2e -- --ignored --nocapture soak::hours

ALL_SUITES := folders loads python stress-ng
SUITES ?= $(ALL_SUITES)

.PHONY: test-suites
test-suites: test-packages ## Test suites of others in each mode of writing: CPython, stress-ng, fio, dbench and more (SUITES='python'), no part of make test
	@unknown='$(filter-out $(ALL_SUITES),$(SUITES))'; [ -z "$$unknown" ] || { echo "no such suite: $$unknown" >&2; exit 1; }
	$(if $(filter loads,$(SUITES)),$(call apt_install,$(APT_SUITES)))
	$(CARGO) test --locked --workspace --test e2e -- --ignored --nocapture --test-threads 1 \
	  $(addprefix staged::suites::,$(subst -,_,$(SUITES)))

.PHONY: test-servers
test-servers: $(TOOLS)/minio $(TOOLS)/versitygw ## Build the independent S3 servers that the tests talk to

$(TOOLS)/minio:
	@$(call go_install,$(MINIO)@$(MINIO_VERSION))

$(TOOLS)/versitygw:
	@$(call go_install,$(VERSITYGW)@$(VERSITYGW_VERSION))

define go_install
	command -v go >/dev/null || { echo "the test servers are Go modules: install Go 1.24 or later" >&2; exit 1; }; \
	echo "building $(1)"; mkdir -p $(TOOLS); \
	for try in $$(seq $(TRIES)); do \
	  [ $$try = 1 ] || { echo "again: $(1)"; sleep $$((3 * try)); }; \
	  GOFLAGS=-mod=mod GOBIN=$(TOOLS) CGO_ENABLED=0 go install -ldflags='-s -w' $(1) && exit 0; done; exit 1
endef

# More S3 servers, for `make test-compatibility` alone: two are Go modules, two are from Maven, one is from PyPI.
.PHONY: compatibility-packages
compatibility-packages: test-packages
	$(call apt_install,python3-venv $(if $(shell command -v java),,default-jre-headless) $(if $(shell command -v mvn),,maven))

$(TOOLS)/gofakes3:
	@$(call go_install,$(GOFAKES3)@$(GOFAKES3_VERSION))

$(TOOLS)/rclone:
	benchmark/peers/install.sh $(TOOLS) rclone

$(TOOLS)/moto/bin/moto_server: | compatibility-packages
	rm -rf $(TOOLS)/moto && /usr/bin/python3 -m venv $(TOOLS)/moto
	$(TOOLS)/moto/bin/pip install --quiet --retries $(TRIES) --only-binary :all: '$(MOTO)'

$(TOOLS)/s3proxy.jar: | compatibility-packages
	@$(call maven_copy,$(S3PROXY))

$(TOOLS)/s3mock.jar: | compatibility-packages
	@$(call maven_copy,$(S3MOCK))

# Named after the artifact, without its version.
define maven_copy
	echo "fetching $(1)"; mkdir -p $(TOOLS); \
	for try in $$(seq $(TRIES)); do \
	  [ $$try = 1 ] || { echo "again: $(1)"; sleep $$((3 * try)); }; \
	  mvn -q -B dependency:copy -Dartifact=$(1) -DoutputDirectory=$(TOOLS) \
	    -Dmdep.stripVersion=true -Dmdep.stripClassifier=true && exit 0; done; exit 1
endef

COMPATIBILITY_SERVERS := minio versitygw gofakes3 rclone moto/bin/moto_server s3proxy.jar s3mock.jar

.PHONY: test-compatibility
test-compatibility: compatibility-packages $(addprefix $(TOOLS)/,$(COMPATIBILITY_SERVERS)) ## File operations on seven S3 servers (SERVERS='moto S3Mock', WRITE=1: write the table)
	$(BUILD)
	mountpoint-fs/tests/compatibility.py --mount-s3 target/debug/mount-s3 --tools $(TOOLS) $(if $(WRITE),--write) $(SERVERS)

.PHONY: lint
lint: packages ## Formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: deny
deny: ## Licences, sources and bans of the dependencies (installs cargo-deny)
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny@$(CARGO_DENY_VERSION)
	$(CARGO) deny --locked check licenses bans sources
	@for workspace in $(PEER_MOUNTPOINT) $(RENDER); do \
	  $(CARGO) deny --locked --manifest-path $$workspace/Cargo.toml --config deny.toml check \
	    --allow license-not-encountered licenses bans sources || exit 1; done

.PHONY: test
test: test-packages test-servers test-programs ## Everything that CI runs: lints, units, contract, real mounts, the demo
	@[ "$$(id -u)" = 0 ] || { echo "the tests mount, unmount and change users: run them as root" >&2; exit 1; }
	@chmod 0666 /dev/fuse # As udev makes it; a machine without udev may have it for root alone.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	MOUNTPOINT_TEST_SERVERS=$(TOOLS) $(CARGO) test --locked --workspace --no-fail-fast
	$(MAKE) demo CHECK=1 PROFILE=dev

FUZZ := mountpoint-fs/fuzz
FUZZ_SECONDS ?= 60

.PHONY: fuzz-packages
fuzz-packages:
	$(call apt_install,libclang-rt-dev)

# Inputs that the fuzzer finds are kept in target/fuzz; one that fails is kept there under `found`, and belongs into
# the target's folder of saved inputs, which the unit tests run.
.PHONY: fuzz
fuzz: packages fuzz-packages ## Fuzz what parses bytes of others, a minute each (TARGETS='fuse_request', FUZZ_SECONDS=3600)
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz@$(CARGO_FUZZ_VERSION)
	@cp Cargo.lock $(FUZZ)/Cargo.lock
	$(CARGO) +nightly fuzz build --fuzz-dir $(FUZZ) any
	@for target in $(or $(TARGETS),$(notdir $(wildcard $(FUZZ)/corpus/*))); do \
	  echo "== $$target"; mkdir -p target/fuzz/{corpus,found}/$$target; \
	  FUZZ_TARGET=$$target $(CARGO) +nightly fuzz run --fuzz-dir $(FUZZ) any target/fuzz/corpus/$$target $(FUZZ)/corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=target/fuzz/found/$$target/ || exit 1; done

INTERLEAVINGS ?= 20000

.PHONY: test-schedules
test-schedules: packages ## The models of threads in many schedules (INTERLEAVINGS=100000, INTERLEAVINGS_SEED=7)
	INTERLEAVINGS=$(INTERLEAVINGS) INTERLEAVINGS_SEED=$(or $(INTERLEAVINGS_SEED),$$RANDOM) $(CARGO) test --locked --workspace --lib -- \
	  schedule no_caller_gets a_rename_begins simulation

.PHONY: test-planted
test-planted: packages ## Plant known faults in this tree, which the tests must find
	mountpoint-fs/tests/planted/run.sh

# The C code is instrumented as well. A thread sanitizer needs a standard library of its kind.
SANITIZERS ?= address thread
SANITIZED_E2E ?= reads:: writes:: failures::

.PHONY: test-sanitizers
test-sanitizers: test-packages test-servers fuzz-packages ## Units, contract, network and some mounts under the sanitizers (SANITIZERS=thread, SANITIZED_E2E=staged::)
	rustup +nightly component add rust-src
	@for sanitizer in $(SANITIZERS); do \
	  export RUSTFLAGS="-Zsanitizer=$$sanitizer" CC=clang CXX=clang++ CFLAGS="-fsanitize=$$sanitizer" CXXFLAGS="-fsanitize=$$sanitizer"; \
	  export MOUNTPOINT_TEST_SERVERS=$(TOOLS) TSAN_OPTIONS="suppressions=$(CURDIR)/mountpoint-crt-sys/tests/thread.suppressions"; \
	  run="$(CARGO) +nightly test --locked --workspace --target-dir target/sanitizers/$$sanitizer -Zbuild-std --target $(shell uname -m)-unknown-linux-gnu"; \
	  $$run --no-fail-fast --lib --test contract --test crt --test network && \
	  $$run --test e2e -- $(SANITIZED_E2E) || exit 1; done

MIRI_SEEDS ?= 32

.PHONY: test-miri
test-miri: packages ## Blocks that threads share, in an interpreter that checks each access (MIRI_SEEDS=1000)
	rustup +nightly component add miri rust-src
	MIRIFLAGS="-Zmiri-many-seeds=0..$(MIRI_SEEDS) -Zmiri-disable-isolation" $(CARGO) +nightly miri test --locked \
	  --target-dir target/miri -p mountpoint-crt-sys --lib -- block::tests::a_reader_sees block::tests::many_threads

# Each change is built and tested: days for all, so name files (MUTATED='mountpoint-fs/src/read/plan/history.rs').
.PHONY: test-mutations
test-mutations: packages ## Change policies and formats in thousands of ways, which the unit tests must notice (MUTATED='FILE ...')
	@command -v cargo-mutants >/dev/null || $(CARGO) install --locked cargo-mutants@$(CARGO_MUTANTS_VERSION)
	INTERLEAVINGS=20 $(CARGO) mutants --config mountpoint-fs/tests/mutants.toml --output target/mutations \
	  $(addprefix --file ,$(MUTATED))

# The peer's crates are a workspace of their own: what they build with decides nothing here.
PEER_MOUNTPOINT := benchmark/peers/mountpoint-s3
# Draws the charts as PNG; a workspace of its own for the same reason.
RENDER := benchmark/render
# What the report says beside each figure, up to the workload.
BENCH_COMMAND := make bench$(if $(ROUNDS), ROUNDS=$(ROUNDS))$(if $(BENCH_ARGS), BENCH_ARGS='$(BENCH_ARGS)')

.PHONY: bench-packages
bench-packages: packages
	$(call apt_install,$(APT_BENCH) $(if $(findstring torch,$(WORKLOAD)),python3-torch) $(if $(findstring --profile,$(BENCH_ARGS)),linux-perf))

PEERS ?= s3fs geesefs goofys rclone
GO_PEERS = $(filter-out s3fs,$(PEERS))

.PHONY: peers
peers: ## Install more peers for the benchmark: s3fs, rclone, geesefs, goofys (PEERS=goofys)
	$(if $(filter s3fs,$(PEERS)),$(call apt_install,s3fs))
	@test -z "$(GO_PEERS)" || command -v go >/dev/null || \
	  { echo "no Go, of which $(GO_PEERS) need 1.25 or later" >&2; exit 1; }
	@test -z "$(GO_PEERS)" || benchmark/peers/install.sh $(TOOLS) $(GO_PEERS)

# Those that are not there yet, as far as they can be had: a run goes on without the others, and says so.
.PHONY: bench-peers
bench-peers:
	@missing=(); for peer in $(PEERS); do \
	  PATH=$(TOOLS):$$PATH command -v $$peer >/dev/null || $(MAKE) --no-print-directory peers PEERS=$$peer || missing+=($$peer); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	  echo "not measured, because they could not be installed (see above): $${missing[*]}" >&2; fi

.PHONY: bench
bench: bench-packages bench-peers ## Measure mount-s3 beside mountpoint-s3 and other peers (WORKLOAD=seq, ROUNDS=3, PEERS=)
	$(BUILD) --release
	$(CARGO) build --locked --release --manifest-path $(PEER_MOUNTPOINT)/Cargo.toml
	$(CARGO) build --locked --release --manifest-path $(RENDER)/Cargo.toml
	PATH=$(TOOLS):$$PATH target/release/benchmark --mount-s3 target/release/mount-s3 \
	  --peer mountpoint-s3=$(PEER_MOUNTPOINT)/target/release/peer-mountpoint-s3 --peers-found --limit \
	  --render $(RENDER)/target/release/render --command "$(BENCH_COMMAND)" \
	  --workload $(or $(WORKLOAD),all) --rounds $(or $(ROUNDS),3) $(BENCH_ARGS)

INSTANCE_TYPES := mountpoint-client/data/instance_throughput

.PHONY: instance-types
instance-types: ## Renew the table of what the network of each EC2 instance type carries
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  python3 -m pip download --quiet --retries $(TRIES) --no-deps --dest "$$folder" moto && \
	  python3 $(INSTANCE_TYPES).py "$$folder"/moto-*.whl > "$$folder/table" && mv "$$folder/table" $(INSTANCE_TYPES).tsv

.PHONY: doc
doc: ## API documentation into target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps
