#!/usr/bin/env bash
# The whole test run, the same for a person and for CI: nothing outside this machine is asked, nothing is left behind. One
# exception: root gets the programs that tests need installed (tools/need.sh).
# RACE (packages) and TESTFLAGS come from the Makefile.
set -eu
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

# A key or an endpoint of the caller must not reach a test, and never be billed by one.
unset OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY ANTHROPIC_BASE_URL
wire=${WORKFLOWD_WIRE_DIR:-}
for name in $(compgen -e WORKFLOWD_ || true); do unset "$name"; done
[ -z "$wire" ] || export WORKFLOWD_WIRE_DIR=$wire

before=$(git status --porcelain 2>/dev/null || true)

step "toolchain: $(go version)"
tools/need.sh test

step "gofmt"
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf '%s\n' "$unformatted" "fix: make fmt"
	exit 1
fi

step "promises"
go run ./tools/promises

step "go vet (the first build compiles SQLite, about two minutes)"
go vet ./...

if [ -n "${RACE:-}" ]; then
	step "go test -race on the packages with goroutines"
	# shellcheck disable=SC2086
	go test -race -vet=off ${TESTFLAGS:-} $RACE
fi

step "go test"
# shellcheck disable=SC2086
go test -vet=off ${TESTFLAGS:-} ./...

after=$(git status --porcelain 2>/dev/null || true)
if [ "$before" != "$after" ]; then
	printf '%s\n' "the run left files behind; a test must write below t.TempDir():" "$after"
	exit 1
fi
printf '\nall passed in %d s\n' "$SECONDS"
