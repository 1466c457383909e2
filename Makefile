# Every target works on a fresh clone with Go, git, make and bash, and what `make` lists for it.

# Each module is built by itself, as its users build it.
export GOWORK := off

# The report's page is looked at in a real browser, and Scrapy crawls through the proxy:
# scripts/setup.sh installs them.
export POLITENESS_BROWSER := 1
export POLITENESS_SCRAPY := 1

# Tests at their full length: without it, go test ./... plays a fixed part of the random ones,
# and the programs under examples/ in virtual time only.
export POLITENESS_LONG := 1

# How many commands run side by side, and for how long make soak and make chaos go on.
JOBS ?= 3
SOAK ?= 1h
CHAOS ?= 10m

# How long make servers crawls each server.
SERVERS ?= 15m

# How long make limiters crawls behind each limiter.
LIMITERS ?= 3m

# How long each target is fuzzed; which benchmarks run, and how often.
export FUZZTIME ?= 30s
export BENCH ?= .
export COUNT ?= 1

# When make mutants ends; the next one goes on. 0: when it is done.
FOR ?= 0

# suite runs the parts that are called by name, in every module that each concerns: see
# internal/suite/parts.go. It prints the output of each command in one piece, and sums up.
SUITE := go run ./internal/suite -j $(JOBS)

# Tools are pinned in a module of their own, and built by the go command when first used.
TOOL := go tool -modfile="$(CURDIR)/tools/go.mod"

.DEFAULT_GOAL := help
.PHONY: help setup fmt fmt-check vet staticcheck lint vulns race test ci ci-notice fuzz mutants portable soak chaos rivals programs networks servers limiters clients bench bench-results bench-scale benchstat doc-check release-check

help: ## list the targets
	@echo 'All need Go 1.26, git, bash and, at first use, the network: modules and tools come through the'
	@echo 'module proxy. What a target needs beyond that stands in brackets; make setup installs it.'
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 22

setup: ## install what the full test run needs and this machine lacks, or say the command [root and apt-get]
	@scripts/setup.sh

fmt: ## format all Go files
	@$(TOOL) gofumpt -w .
	@$(TOOL) goimports -w .
	@go run ./internal/doccheck -w

fmt-check: ## fail if a Go file isn't formatted
	@! gofmt -s -l . | sed 's/$$/: not formatted (make fmt)/' | grep .

vet: ## go vet in every module [C compiler]
	@$(SUITE) vet

staticcheck: ## staticcheck in every module [C compiler]
	@$(SUITE) staticcheck

lint: ## golangci-lint in every module, actionlint on the workflows [C compiler]
	@$(SUITE) lint

vulns: ## govulncheck in every module [C compiler, vuln.go.dev]
	@$(SUITE) vulns

race: ## the tests of the published modules under the race detector [C compiler, redis-server, postgresql, pgbouncer, Chromium, Scrapy, wget]
	@$(SUITE) race

test: setup fmt-check ## formatting, vet, staticcheck, the tests of all modules [the same]
	@$(SUITE) race rest vet staticcheck

ci-notice:
	@echo 'make ci: installs what is missing (make setup), checks the format, runs the tests of all modules, those of'
	@echo 'the published ones under the race detector, and golangci-lint; then a table of all of it.'
	@echo 'With empty caches it downloads about 2 GB: Go modules, tools, Debian packages, a browser.'
	@echo 'On two processors it takes ten minutes to an hour, by the caches and by what else these do. The output of each command comes when that has ended.'

ci: ci-notice setup fmt-check ## all that a change must pass: everything of test, and lint [the same]
	@$(SUITE) race rest lint

fuzz: ## fuzz every target for FUZZTIME (30s each)
	@$(SUITE) fuzz

mutants: ## change the code of PACKAGES (or files), an operator at a time, and see whether tests notice: lab/mutants/mutants.txt; FOR=20m ends it, and the next one goes on
	go -C lab/mutants run . -for=$(FOR) $(PACKAGES)

portable: ## go vet of the published modules for other processors and systems, 32 bits among them
	@$(SUITE) portable

soak: ## all random tests side by side for SOAK (1h), each with a verdict and a seed [redis-server]
	@$(SUITE) -soak $(SOAK) soak

chaos: ## sixteen processes on a Redis that is killed, stopped and emptied, for CHAOS (10m) [redis-server]
	cd redis/redislimit && go test -count=1 -timeout=2h -v -run '^TestChaos$$' . -args -chaos $(CHAOS)

rivals: ## colly's and resty's own tests through a Transport
	cd lab/transparency/rivals && POLITENESS_TRANSPARENCY=1 go test -count=1 -v .

programs: ## crawl a site with fourteen real programs that have the one line, and nothing else: lab/programs/RESULTS.md
	cd lab/programs && POLITENESS_PROGRAMS=1 go test -count=1 -timeout=30m -parallel=16 -v -run '^TestOneLine$$' .

networks: ## crawls through network namespaces that lose, delay and cut, and on a full disk [Linux, root, redis-server]
	cd lab/nettest && POLITENESS_NETWORKS=1 go test -count=1 -v .
	POLITENESS_NETWORKS=1 go test -count=1 -v -run '^TestFullDisk$$' ./internal/promises
	cd lab/redisnet && POLITENESS_NETWORKS=1 go test -count=1 -v .

servers: ## crawl nginx, HAProxy, Apache and Varnish for SERVERS (15m), judged by their logs: lab/servers/RESULTS.md [these servers, wget]
	cd lab/servers && POLITENESS_SERVERS=$(SERVERS) go test -count=1 -timeout=0 -v -run '^TestServers$$' .

limiters: ## crawl behind the rate limiters of npm, Go and Debian for LIMITERS (3m), judged by their logs: lab/limiters/RESULTS.md [these servers, node and npm]
	cd lab/limiters && POLITENESS_LIMITERS=$(LIMITERS) go test -count=1 -timeout=0 -v -run '^TestLimiters$$' .

clients: ## real programs through politeness proxy, judged by the log of their site [curl, wget, Scrapy, python3-httpx, node, java; aria2, lftp, php, ruby, ... where they are]
	cd cmd/politeness && POLITENESS_CLIENTS=1 go test -count=1 -parallel=40 -timeout=30m -v -run 'Clients|Wget|Scrapy' .
	cd cmd/politeness && go test -count=1 -timeout=30m -v -run 'Curl' ./internal/proxy

bench: ## run the benchmarks matching BENCH (.), COUNT (1) times [C compiler, redis-server]
	@$(SUITE) bench

bench-results: ## measure politeness beside its rivals: lab/benchmarks/RESULTS.md, in under 10 minutes [a quiet machine, redis-server]
	cd lab/benchmarks && go run .

bench-scale: ## measure large crawls against their bounds: a section of lab/benchmarks/RESULTS.md, in two minutes [a quiet machine, 1 GB]
	cd lab/benchmarks && go run . -only scale -update

benchstat: ## compare two outputs of make bench: OLD=old.txt NEW=new.txt
	@$(TOOL) benchstat $(OLD) $(NEW)

doc-check: ## type-check the Go code in README.md and docs/
	go test -count=1 -v -run '^TestDocs' ./docs

release-check: ## play the release of the last commit: each module from a proxy of files, and a user's program [redis-server, postgresql]
	scripts/release-check.sh -play v0.1.0
