# The front door for people. `make test` installs what is missing and starts servers of its own.

.PHONY: demo test check unit clean

demo:
	cargo build --release --package tonnage-cli
	scripts/demo target/release/tonnage

test: check unit

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

unit:
	cargo build --workspace --locked
	flights=$$(scripts/fetch-flights) && \
	TONNAGE_TEST_FLIGHTS=$$flights scripts/with-servers cargo test --workspace --locked

clean:
	cargo clean
