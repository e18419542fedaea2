#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME each (default 20s); stops at the first failure, which go test has then saved below testdata.
set -eu
cd "$(dirname "$0")/.."
time=${1:-20s}
found=0
for file in $(git ls-files -co --exclude-standard -- '*_test.go' | sort); do
	for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$file"); do
		found=$((found + 1))
		printf '\n== %s %s\n' "$(dirname "$file")" "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
	done
done
printf '\n%d fuzz targets ran %s each\n' "$found" "$time"
