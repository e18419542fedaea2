# workflowd: `make help` lists what there is to type.
include tools/versions.mk

BIN := bin/workflowd
GO  := go

# Packages with goroutines, tested once more under the race detector. None of them links SQLite unless its tests do: the
# detector would compile it a second time.
RACE ?= ./executor/... ./agentcore ./agentcore/harness/... ./agentcore/session/... ./agentcore/task/... ./agentcore/registry/... ./agentcore/env/... ./agentcore/llm ./agentcore/llm/openaicompletions ./agentcore/llm/scripted ./nodes/agentnode ./workflowtest

# Flags of both test runs, for example TESTFLAGS='-count=1 -v'.
TESTFLAGS ?=

# The demo uses the built-in demo model unless MODEL is set; an exported key alone spends nothing.
DEMO_FLAGS ?=
ifdef MODEL
DEMO_FLAGS += --model '$(MODEL)'
endif
ifdef BASE_URL
DEMO_FLAGS += --base-url '$(BASE_URL)'
endif
ifdef API_KEY_FILE
DEMO_FLAGS += --api-key-file '$(API_KEY_FILE)'
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test race crash soak fuzz bench bench-compare lint fmt verify promises arch ci clean $(BIN)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: $(BIN) ## build bin/workflowd

$(BIN):
	@tools/need.sh
	@[ -e $(BIN) ] || echo "building $(BIN); the first build compiles SQLite and takes about two minutes" >&2
	@$(GO) build -o $(BIN) ./cmd/workflowd

demo: $(BIN) ## the main job on your machine, no key and no network (MODEL= BASE_URL= API_KEY_FILE= for a real model)
	@$(BIN) run demo --demo-dir .demo $(DEMO_FLAGS)

test: ## everything: format, vet, promises, race detector, all tests
	@RACE='$(RACE)' TESTFLAGS='$(TESTFLAGS)' tools/test.sh

race: ## the race detector on the packages with goroutines
	$(GO) test -race $(TESTFLAGS) $(RACE)

KILLS ?= 200
crash: ## kill a real process at every durable edge and KILLS=200 times at random, reopen, compare (minutes)
	$(GO) test ./test/crash -v -count=1 -timeout 60m -args -crash.all -crash.random $(KILLS)

ORACLE_OPS ?= 1000000
SESSIONS ?= 5000
soak: ## long runs: ORACLE_OPS=1000000 random operations against each session store, KILLS=200 random kills, SESSIONS=5000 that idle
	$(GO) test ./agentcore/session -v -count=1 -timeout 120m -run Oracle -args -oracle.ops $(ORACLE_OPS)
	$(GO) test ./store/sessionstore -v -count=1 -timeout 240m -run AgreesWith -args -oracle.ops $(ORACLE_OPS)
	$(GO) test ./test/crash -v -count=1 -timeout 120m -run Random -args -crash.random $(KILLS)
	$(GO) test ./test/scale -v -count=1 -timeout 60m -run Idle -args -scale.sessions $(SESSIONS) -scale.wakes 2000

FUZZTIME ?= 20s
fuzz: ## every fuzz target for FUZZTIME=20s
	@tools/fuzz.sh $(FUZZTIME)

bench: ## the benchmarks, beside their floor, into bin/bench.txt
	@mkdir -p bin
	$(GO) test -run '^$$' -bench . -benchmem -count 6 ./... | tee bin/bench.txt

bench-compare: bin/benchstat ## compare bin/bench.txt with OLD=file
	bin/benchstat $(OLD) bin/bench.txt

lint: bin/golangci-lint ## golangci-lint (the first time builds it, some minutes)
	bin/golangci-lint run ./...

bin/golangci-lint: tools/versions.mk
	GOBIN='$(CURDIR)/bin' $(GO) install $(GOLANGCI_LINT)

bin/benchstat: tools/versions.mk
	GOBIN='$(CURDIR)/bin' $(GO) install $(BENCHSTAT)

fmt: ## gofmt everything
	gofmt -w .

verify: ## the tree is what it says: modules, format, vet, rules, nothing left over
	$(GO) mod verify
	$(GO) mod tidy -diff
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'fix: make fmt'; exit 1; }
	$(GO) vet ./...
	$(GO) test ./internal/archtest ./tools/...
	git diff --exit-code

promises: ## which promises have a test, and which have none yet
	@$(GO) run ./tools/promises -v

arch: ## the house rules: arrows, sizes, words, documents
	$(GO) test -count=1 ./internal/archtest

ci: ## exactly what CI runs
	@bash .ci/run

clean: ## remove bin/ and the demo's data
	rm -rf bin .demo
