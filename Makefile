# Two commands matter: `make demo` and `make test`. The rest are their parts.

CARGO ?= cargo

.PHONY: demo test conformance soak build lint setup screenshots clean-data

# The scheduler on its embedded store, a demo executor and four jobs. Ctrl-C ends all.
demo:
	@$(CARGO) build --release --bin clawjob
	@exec $(CARGO) run --quiet --release --bin clawjob -- dev

# Everything: style, licences, unit, store, API, end-to-end, crash tests, other languages.
test:
	@.ci/test

# The same with the long counts whole, and a minute of random inputs for each target.
soak:
	@CLAWJOB_SOAK=1 CLAWJOB_FUZZ_SECONDS=60 .ci/test

# The contract's scenarios against each SDK and the scheduler, as a table.
conformance: setup
	@.ci/conformance

build:
	@$(CARGO) build --release --bin clawjob

lint:
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets -- -D warnings

# Installs what the tests need where it is missing: Debian packages, else it says what to install.
setup:
	@.ci/setup

# Pictures of every page of the console in both themes, in ./screenshots.
screenshots: setup
	@$(CARGO) build --bin clawjob
	@CLAWJOB_TEST_BINARY="$$(cd "$${CARGO_TARGET_DIR:-target}" && pwd)/debug/clawjob" \
		node scheduler/tests/console/screenshots.js screenshots 2

clean-data:
	@rm -rf clawjob-data
