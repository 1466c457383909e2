# Every target works on a fresh clone with Go, make and bash. `make` lists them.

SHELL := /bin/bash

# Each module is built by itself, as its users build it.
export GOWORK := off

# The report's page is looked at in a real browser, and Scrapy crawls through the proxy:
# scripts/setup.sh installs them.
export POLITENESS_BROWSER := 1
export POLITENESS_SCRAPY := 1

# Tests at their full length: without it, go test ./... plays a fixed part of the random ones,
# and the programs under examples/ in virtual time only.
export POLITENESS_LONG := 1

# The modules of this repository. Those that are published are tested under the
# race detector; the rest are programs around heavy dependencies, whose
# instrumented build would cost more than it finds.
NESTED := $(patsubst ./%/go.mod,%,$(sort $(shell find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/testdata/*')))
PROGRAMS := $(filter examples/% benchmarks benchmarks/% internal/%,$(NESTED))
PUBLISHED := . $(filter-out $(PROGRAMS),$(NESTED))
MODULES := $(PUBLISHED) $(PROGRAMS)

# Tools are pinned in a module of their own, and built by the go command when first used.
TOOL := go tool -modfile="$(CURDIR)/tools/go.mod"

# How long each target is fuzzed; which benchmarks run, and how often.
FUZZTIME ?= 30s
BENCH ?= .
COUNT ?= 1

# $(call in,MODULES,COMMAND) runs the command in the directory of each module, up to the first that fails.
define in
@set -euo pipefail; for module in $(1); do echo "== $@ $$module"; (cd $$module && $(2)); done
endef

.DEFAULT_GOAL := help
.PHONY: help setup fmt fmt-check vet staticcheck lint test race fuzz mutants portable soak chaos bench bench-results benchstat doc-check ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the full test run needs and this machine lacks
	@scripts/setup.sh

fmt: ## format all Go files
	@$(TOOL) gofumpt -w .
	@$(TOOL) goimports -w .

fmt-check: ## fail if a Go file isn't formatted
	@unformatted=$$(gofmt -s -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet in every module
	$(call in,$(MODULES),go vet ./...)

staticcheck: ## staticcheck in every module
	$(call in,$(MODULES),$(TOOL) staticcheck ./...)

lint: ## golangci-lint in every module
	$(call in,$(MODULES),$(TOOL) golangci-lint run ./...)

test: setup fmt-check vet staticcheck race ## everything: set-up, formatting, vet, staticcheck, the tests of all modules
	POLITENESS_TRANSPARENCY=1 go test -count=1 ./internal/transparency
	cd hostlimit/redislimit && go test -count=1 -run=Fates .
	$(call in,$(PROGRAMS),go test ./...)

race: ## the tests of the published modules under the race detector
	$(call in,$(PUBLISHED),go test -race -timeout=30m ./...)

fuzz: ## fuzz every target for FUZZTIME (30s)
	$(call in,$(PUBLISHED),"$(CURDIR)/scripts/fuzz.sh" $(FUZZTIME))

mutants: ## change the code of PACKAGES, an operator at a time, and see whether tests notice: mutants.txt (hours)
	go -C tools/mutants run . $(PACKAGES)

portable: ## go vet for other processors and systems, 32 bits among them
	@set -e; for target in linux/386 linux/arm64 freebsd/amd64 darwin/arm64 windows/amd64; do \
		echo "== $$target"; GOOS=$${target%/*} GOARCH=$${target#*/} go vet ./...; done

soak: ## the random tests at full length (hours)
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v ./hostlimit
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run=TestKilledAtAnyInstant .
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run=TestWildcardDomain ./robots/robotscache
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run='TestManyNames|TestNoTwoArrivals' .
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run=TestNoHonestLogIsBroken ./evidence/audit
	POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v ./crawl/sitemap
	cd budget/redisbudget && POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run=TestRandomLosses .
	cd hostlimit/redislimit && POLITENESS_SOAK=1 go test -count=1 -timeout=2h -v -run=Fates .

chaos: ## sixteen processes on a Redis that is killed, stopped and emptied, for CHAOS (10m)
	cd hostlimit/redislimit && GOWORK=off go test -count=1 -timeout=2h -v -run '^TestChaos$$' . -args -chaos $(or $(CHAOS),10m)

bench: ## run the benchmarks matching BENCH (.), COUNT (1) times
	$(call in,$(MODULES),go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...)

bench-results: ## measure politeness beside its rivals: benchmarks/RESULTS.md (under 10 minutes, on a quiet machine)
	cd benchmarks && go run .

benchstat: ## compare two outputs of make bench: OLD=old.txt NEW=new.txt
	@$(TOOL) benchstat $(OLD) $(NEW)

doc-check: ## type-check the Go code in README.md and docs/
	go test -count=1 -v -run '^TestDocs' ./docs

ci: test lint ## all that a change must pass: everything of test, and lint
