# Tools of the workshop, pinned here and not in go.mod: the product's module list stays short, and `go install NAME@VERSION`
# builds each from its own module. `make lint` and `make bench-compare` install them into bin/ when first used.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
