# `uv run just check` is what .ci/run and people both call.

default:
    @just --list

# format everything in place
fmt:
    ruff format .
    ruff check --fix .
    cargo fmt --all

# linters, types, contracts, Rust tests
check: lint types rust

lint:
    ruff format --check .
    ruff check .
    lint-imports
    deptry .
    typos

types:
    basedpyright --level error
    python -m mypy.stubtest tokenmill._core --ignore-disjoint-bases --allowlist .ci/stubtest-allowlist --ignore-unused-allowlist

rust:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo test --release --locked -p tokenmill-core

# all quick tests
test *args:
    pytest {{args}}

bench *args:
    python -m bench {{args}}
