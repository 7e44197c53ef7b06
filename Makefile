# The front door for people. `make test` installs what is missing and starts servers of its own.

.PHONY: help demo test check unit python-test python-reference wheel docs samples reference dist test-faults fuzz bench experiments report new-target tools clean

help:
	@echo 'make demo         build the release binary, load a million rows into SQLite, print the account'
	@echo 'make test         check and unit: all that must pass'
	@echo 'make check        formatter, clippy and documentation, without warnings'
	@echo 'make unit         all tests, with servers of their own'
	@echo 'make python-test  the Python package: pytest, doctests, mypy and pyright, with servers of their own'
	@echo 'make wheel        a wheel of the Python package and the command, by a release build, into target/wheels'
	@echo 'make test-faults  a hundred rounds of faults against every target: an hour or two'
	@echo 'make fuzz         what reads foreign bytes, SECONDS=600 each (ARGS="csv urls" for some; needs nightly)'
	@echo 'make bench        side by side with other tools: medians and ratios (ARGS=--help)'
	@echo 'make experiments  published experiments repeated, into docs/experiments (ARGS=--help)'
	@echo 'make report       docs/report.png, the picture of a report of tonnage bench, made anew (ARGS="--repeat 5")'
	@echo 'make dist         what a release consists of, into target/dist, each installed into an empty root and tried'
	@echo 'make docs         the pages of docs/ as a book, into target/book, their commands run with a release build'
	@echo 'make samples      what the README and the tutorials show, printed anew by a release build'
	@echo 'make reference    docs/reference, made anew from the code'
	@echo 'make new-target NAME=mango   the beginning of a target: a crate, its line in the registry, contract tests that fail'
	@echo 'make clean        remove what was built'

demo: tools
	cargo build --release --locked --package tonnage-cli
	scripts/demo $(or $(CARGO_TARGET_DIR),target)/release/tonnage

# What tests choose by chance is the same each time; `cargo test` by itself chooses anew, as does test-faults.
TONNAGE_TEST_SEED ?= 1
TONNAGE_BROKEN_SEED ?= 1

test: check unit

check: tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

# Tests wait more than half of their time, for servers that start and for disks that sync.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

# Built in one step: `cargo build` would compile half of the dependencies with other features, for nothing.
unit: tools
	cargo test --workspace --no-run --locked
	scripts/java17 >/dev/null && scripts/fetch-cassandra >/dev/null && scripts/chromium >/dev/null
	scripts/fetch-mysql9 >/dev/null && scripts/fetch-oceanbase >/dev/null
	flights=$$(scripts/fetch-flights) && \
	TONNAGE_TEST_FLIGHTS=$$flights TONNAGE_TEST_SEED=$(TONNAGE_TEST_SEED) TONNAGE_BROKEN_SEED=$(TONNAGE_BROKEN_SEED) \
	RUST_TEST_THREADS=$(TEST_THREADS) \
	scripts/with-servers sh -c 'scripts/watch-tests --again 3 cargo test --workspace --locked && scripts/python-tests'

# A part of unit. TONNAGE_PYTHON_KILLS=50 kills more often.
python-test: tools
	scripts/java17 >/dev/null && scripts/fetch-cassandra >/dev/null
	scripts/with-servers scripts/python-tests $(ARGS)

# The options that the functions have, after the command line's have changed.
python-reference: tools
	cargo build --workspace --lib --tests --locked
	scripts/python-tests --collect-only >/dev/null || true
	$(or $(CARGO_TARGET_DIR),target)/python/bin/python scripts/python-options

wheel: tools
	scripts/python-wheel

# Where the table of the rounds goes, and what failed ones leave.
FAULT_DIRECTORY := $(abspath $(or $(CARGO_TARGET_DIR),target))/faults

# All rounds of a target are one test.
FAULT_MINUTES ?= 300

# One seed again: make test-faults TONNAGE_FAULT_SEED=1234 FAULTS=faults::rounds_of_mariadb
test-faults: tools
	cargo test --workspace --no-run --locked --test it
	scripts/java17 >/dev/null && scripts/fetch-cassandra >/dev/null
	scripts/fetch-mysql9 >/dev/null && scripts/fetch-oceanbase >/dev/null
	rm -rf $(FAULT_DIRECTORY)/round-* $(FAULT_DIRECTORY)/table.md
	ended=0; \
	TONNAGE_FAULT_DIRECTORY=$(FAULT_DIRECTORY) TONNAGE_FAULT_ROUNDS=$(or $(TONNAGE_FAULT_ROUNDS),100) \
	scripts/with-servers scripts/watch-tests --test-minutes $(FAULT_MINUTES) cargo test --locked --workspace --no-fail-fast --test it $(or $(FAULTS),faults) -- --nocapture \
	|| ended=$$?; \
	if [ -f $(FAULT_DIRECTORY)/table.md ]; then cat $(FAULT_DIRECTORY)/table.md; fi; exit $$ended

# The directory can be published as it is.
DIST := $(abspath $(or $(CARGO_TARGET_DIR),target))/dist
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release/tonnage

# mdbook is built once, which takes some minutes.
MDBOOK := $(abspath $(or $(CARGO_TARGET_DIR),target))/tools/bin/mdbook

# The commands of the pages are run with the release build.
docs: tools $(MDBOOK)
	cargo build --release --locked --package tonnage-cli
	TONNAGE_TEST_BINARY=$(abspath $(RELEASE)) cargo test --workspace --locked --test it readme
	cargo test --workspace --locked --lib reference
	$(MDBOOK) build --dest-dir $(abspath $(or $(CARGO_TARGET_DIR),target))/book

# What the README and the tutorials show, printed by the release build.
samples: tools
	cargo build --release --locked --package tonnage-cli
	TONNAGE_SAMPLES=write TONNAGE_TEST_BINARY=$(abspath $(RELEASE)) \
	cargo test --workspace --locked --test it readme::the_pages

# Each test compares a page with the code; to write it is the same run.
reference: tools
	INSTA_UPDATE=always cargo test --workspace --locked --lib reference

$(MDBOOK):
	cargo install --locked --root $(abspath $(or $(CARGO_TARGET_DIR),target))/tools mdbook@0.5.4 --no-default-features --features search

dist: tools
	cargo build --release --locked --package tonnage-cli
	scripts/dist $(RELEASE) $(DIST)
	scripts/test-dist $(RELEASE) $(DIST)

fuzz: tools
	scripts/fuzz $(or $(SECONDS),600) $(ARGS)

bench: tools
	cargo build --release --locked --package tonnage-cli
	cargo build --release --locked --package tonnage --example single_gets --example buffer_puts --example nine_tasks
	scripts/with-servers bench/run.py $(ARGS)

experiments: tools
	cargo build --release --locked --package tonnage-cli
	scripts/with-servers bench/experiments/run.py $(ARGS)

report: tools
	cargo build --release --locked --package tonnage-cli
	scripts/with-servers scripts/report $(or $(CARGO_TARGET_DIR),target)/release/tonnage $(ARGS)

new-target:
	@scripts/new-target '$(NAME)'

tools:
	@scripts/ensure-tools

clean:
	cargo clean
