# Every target works on a fresh clone with Go, git, make and bash, and what `make` lists for it.

SHELL := bash

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
NESTED := $(filter-out tools tools/%,$(patsubst %/go.mod,%,$(sort $(wildcard */go.mod */*/go.mod */*/*/go.mod))))
PROGRAMS := $(filter examples/% benchmarks benchmarks/% internal/%,$(NESTED))
PUBLISHED := . $(filter-out $(PROGRAMS),$(NESTED))
MODULES := $(PUBLISHED) $(PROGRAMS)

# Tools are pinned in a module of their own, and built by the go command when first used.
TOOL := go tool -modfile="$(CURDIR)/tools/go.mod"

# How long each target is fuzzed; which benchmarks run, and how often.
FUZZTIME ?= 30s
BENCH ?= .
COUNT ?= 1

# How many commands of a target run side by side, and for how long make soak goes on.
JOBS ?= 3
SOAK ?= 1h

# suite runs commands side by side, prints the output of each in one piece, and sums up.
# $(call each,NAME,MODULES,COMMAND) is the same command in the directory of each module.
SUITE := go run ./internal/suite -j $(JOBS)
each = $(foreach module,$(2),'$(1) $(module) $(3)')

# Tests on a real Redis wait most of their time, and see how late they are woken: they begin first,
# and all that runs beside them gives way.
TIMED := hostlimit/redislimit budget/redisbudget robots/robotscache/redisrobots
GIVE_WAY := nice -n 10

VET := $(call each,vet,$(MODULES),$(GIVE_WAY) go vet ./...)
STATICCHECK := $(call each,staticcheck,$(MODULES),$(GIVE_WAY) $(TOOL) staticcheck ./...)
LINT := $(call each,lint,$(MODULES) tools/mutants,$(GIVE_WAY) $(TOOL) golangci-lint run --allow-parallel-runners ./...)
RACE := \
	$(call each,race,$(TIMED),go test -json -race -timeout=30m ./...) \
	$(call each,race,$(filter-out $(TIMED),$(PUBLISHED)),$(GIVE_WAY) go test -json -race -timeout=30m ./...)
REST := \
	'transparency internal/transparency POLITENESS_TRANSPARENCY=1 $(GIVE_WAY) go test -json -count=1 .' \
	'fates hostlimit/redislimit $(GIVE_WAY) go test -json -count=1 -run=Fates .' \
	$(call each,test,$(PROGRAMS),$(GIVE_WAY) go test -json ./...)

# $(call in,MODULES,COMMAND) runs the command in the directory of each module, up to the first that fails.
define in
@set -euo pipefail; for module in $(1); do echo "== $@ $$module"; (cd $$module && $(2)); done
endef

.DEFAULT_GOAL := help
.PHONY: help setup fmt fmt-check vet staticcheck lint test race fuzz mutants gremlins portable soak chaos rivals networks bench bench-results bench-scale benchstat doc-check ci

help: ## list the targets
	@echo 'All need Go 1.26, git, bash and, at first use, the network: modules and tools come through the'
	@echo 'module proxy. What a target needs beyond that stands in brackets; make setup installs it.'
	@while IFS= read -r line; do \
		if [[ $$line =~ ^([a-z-]+):.*'## '(.*) ]]; then printf '  make %-14s %s\n' "$${BASH_REMATCH[@]:1}"; fi; done <Makefile

setup: ## install what the full test run needs and this machine lacks, or say the command [root and apt-get]
	@scripts/setup.sh

fmt: ## format all Go files
	@$(TOOL) gofumpt -w .
	@$(TOOL) goimports -w .

fmt-check: ## fail if a Go file isn't formatted
	@unformatted=$$(gofmt -s -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet in every module [C compiler]
	@$(SUITE) $(VET)

staticcheck: ## staticcheck in every module [C compiler]
	@$(SUITE) $(STATICCHECK)

lint: ## golangci-lint in every module [C compiler]
	@$(SUITE) $(LINT)

race: ## the tests of the published modules under the race detector [C compiler, redis-server, Chromium, Scrapy, wget]
	@$(SUITE) $(RACE)

test: setup fmt-check ## formatting, vet, staticcheck, the tests of all modules [the same]
	@$(SUITE) $(RACE) $(REST) $(VET) $(STATICCHECK)

# golangci-lint runs all checks of vet and of staticcheck: see .golangci.yml.
ci: setup fmt-check ## all that a change must pass: everything of test, and lint [the same]
	@$(SUITE) $(RACE) $(REST) $(LINT)

fuzz: ## fuzz every target for FUZZTIME (30s each)
	$(call in,$(PUBLISHED) internal/interop,"$(CURDIR)/scripts/fuzz.sh" $(FUZZTIME))

mutants: ## change the code of PACKAGES (or files), an operator at a time, and see whether tests notice: mutants.txt; FOR=20m ends it, and the next one goes on
	go -C tools/mutants run . $(if $(FOR),-for=$(FOR)) $(PACKAGES)

gremlins: ## a second opinion on PACKAGES (backoff): the mutants of gremlins, which share nothing with ours, minutes to hours of them
	@set -e; unset POLITENESS_LONG POLITENESS_BROWSER POLITENESS_SCRAPY; export GOFLAGS=-count=1; for package in $(or $(PACKAGES),backoff); do \
		$(TOOL) gremlins unleash --timeout-coefficient=30 --threshold-efficacy=95 --threshold-mcover=90 ./$$package; done

portable: ## go vet of the published modules for other processors and systems, 32 bits among them
	@set -e; for target in linux/386 linux/arm64 freebsd/amd64 darwin/arm64 windows/amd64; do \
		export GOOS=$${target%/*} GOARCH=$${target#*/}; echo "== $$target"; \
		for module in $(PUBLISHED); do (cd $$module && go vet ./...); done; done

# Each part takes an equal share of the time, but for sizes, which takes what it needs.
part = '$(1) $(2) go test -json -count=1 -timeout=0 -run "^$(3)" .'
soak: ## all random tests side by side for SOAK (1h), each with a verdict and a seed [redis-server]
	@$(SUITE) -soak $(SOAK) \
		$(call part,property,hostlimit,TestPropertyAgainstModel) \
		$(call part,restart,hostlimit,TestRestartsChangeNothing) \
		$(call part,kill,hostlimit,TestDirSurvivesKill) \
		$(call part,kill,.,TestKilledAtAnyInstant) \
		$(call part,chaos,hostlimit/redislimit,TestChaos) \
		$(call part,fleet,hostlimit/redislimit,TestFleet) \
		$(call part,fates,hostlimit/redislimit,TestFatesAtRandom) \
		$(call part,losses,budget/redisbudget,TestRandomLosses) \
		$(call part,judge,evidence/audit,TestNoHonest) \
		$(call part,wire,.,TestNoTwoArrivals) \
		$(call part,webs,crawl,TestRandomWebs) \
		$(call part,names,.,TestManyNames) \
		$(call part,names,robots/robotscache,TestWildcardDomain) \
		$(call part,sizes,crawl/sitemap,) \
		$(call part,sizes,evidence/audit,TestTheJudgeRemembersNoLines) \
		$(call part,sizes,hostlimit,TestLearnedFindsTheRate) \
		$(call part,sizes,hostlimit/redislimit,TestEveryFate)

chaos: ## sixteen processes on a Redis that is killed, stopped and emptied, for CHAOS (10m) [redis-server]
	cd hostlimit/redislimit && GOWORK=off go test -count=1 -timeout=2h -v -run '^TestChaos$$' . -args -chaos $(or $(CHAOS),10m)

rivals: ## colly's and resty's own tests through a Transport
	cd internal/transparency/rivals && POLITENESS_TRANSPARENCY=1 go test -count=1 -v .

networks: ## crawls through network namespaces that lose, delay and cut, and on a full disk [Linux, root, redis-server]
	POLITENESS_NETWORKS=1 go test -count=1 -v ./internal/nettest
	POLITENESS_NETWORKS=1 go test -count=1 -v -run '^TestFullDisk$$' .
	cd internal/redisnet && POLITENESS_NETWORKS=1 go test -count=1 -v .

bench: ## run the benchmarks matching BENCH (.), COUNT (1) times [C compiler, redis-server]
	$(call in,$(MODULES),go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...)

bench-results: ## measure politeness beside its rivals: benchmarks/RESULTS.md, in under 10 minutes [a quiet machine, redis-server]
	cd benchmarks && go run .

bench-scale: ## measure large crawls against their bounds: a section of benchmarks/RESULTS.md, in two minutes [a quiet machine, 1 GB]
	cd benchmarks && go run . -only scale -update

benchstat: ## compare two outputs of make bench: OLD=old.txt NEW=new.txt
	@$(TOOL) benchstat $(OLD) $(NEW)

doc-check: ## type-check the Go code in README.md and docs/
	go test -count=1 -v -run '^TestDocs' ./docs
