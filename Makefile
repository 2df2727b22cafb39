# Every target works on a clean clone with Go 1.26 alone, except those that start Cassandra (Java 17 and Maven as well),
# openapi-lint and console-check (Node and npm), sdk-test (Python, Node, PostgreSQL) and console-test (Chromium), which leave out what they cannot do and say so.
# Everything built, downloaded, started or measured lies in .local/.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .local/bin

# The version is stamped below; Go's own stamp fails where the clone belongs to another user.
export GOFLAGS ?= -buildvcs=false
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)

##@ Try it

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build .local/bin/carillon
	@mkdir -p $(BIN)
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/carillon ./cmd/carillon

.PHONY: demo
demo: build ## the whole system in one process, with 20 jobs a second for a minute
	$(BIN)/carillon dev --demo

.PHONY: demo-workflows
demo-workflows: build ## the same with three workflows instead, step by step: a fan-out, an approval, a saga
	$(BIN)/carillon dev --demo-workflows --port 0

##@ The page at /console/

.PHONY: console
console: ## build the page of bucketer/httpapi/console/ui into dist, with the types of the API (with Node and npm)
	@bash .ci/console/build

.PHONY: console-screenshots
console-screenshots: ## pictures of the page with a few minutes of data into loadtest/plots/console-*.png (ALL=1: every view, into .local/console/views)
	@SCREENSHOTS=$(if $(ALL),.local/console/views SCREENSHOTS_OF=all,loadtest/plots) bash .ci/console/run

##@ A real cluster on this machine (CASSANDRA=0|1|3 NATS=0|1|3 NODES=0..16 PROFILE=test|load COMMITLOG=periodic|group; as root REGIONS=2|3 DELAY=40ms)

CASSANDRA ?= 1
NATS      ?= 1
NODES     ?= 2
PROFILE   ?= test
COMMITLOG ?= periodic
REGIONS   ?= 0
DELAY     ?= 40ms
DIR       ?= .local/cluster

.PHONY: up
up: build ## start Cassandra, NATS and Carillon nodes, for example: make up CASSANDRA=3 NATS=3 NODES=2 (REGIONS=2: that many in each of two regions that share a keyspace)
	@mkdir -p $(BIN) && go build -o $(BIN)/carillon-local ./deploy/local
	$(BIN)/carillon-local up --dir '$(DIR)' --cassandra $(CASSANDRA) --nats $(NATS) --nodes $(NODES) \
	  --profile $(PROFILE) --commitlog $(COMMITLOG) --regions $(REGIONS) --delay $(DELAY) $(if $(filter-out 0,$(REGIONS)),--one-keyspace)

.PHONY: status
status: ## show its members, their state and addresses
	@mkdir -p $(BIN) && go build -o $(BIN)/carillon-local ./deploy/local
	@$(BIN)/carillon-local status --dir '$(DIR)'

.PHONY: down
down: ## stop it; its data stays for the next `make up` (PURGE=1 removes it)
	go run ./deploy/local down --dir '$(DIR)' $(if $(PURGE),--purge)

##@ Check and test

.PHONY: test
test: $(BIN)/gotestsum ## every package, with a real Cassandra and a real NATS, in minutes (PKG=./ring/... RUN=TestJoin for less)
	@bash .ci/test

.PHONY: test-all
test-all: $(BIN)/gotestsum ## what takes long as well, with the race detector where goroutines meet (PKG=… RUN=…)
	@ALL=1 bash .ci/test

.PHONY: console-test
console-test: $(BIN)/gotestsum ## the console in a real browser, on carillon dev and a cluster of three nodes, in 8 minutes (RUN=TestTour)
	@bash .ci/console/run

.PHONY: sdk-test
sdk-test: ## deploy/sdk (Python, TypeScript) and package outbox against the program that is built, in a minute (ONLY=python|typescript|outbox)
	@ONLY='$(ONLY)' bash .ci/sdk

.PHONY: sdk-pack
sdk-pack: ## pack the SDK for TypeScript into .local/sdk/carillon-client-VERSION.tgz (with Node and npm)
	@PACK=1 bash .ci/sdk

.PHONY: sdk-types
sdk-types: ## write the types of deploy/sdk anew, of the OpenAPI document
	@TYPES=1 bash .ci/sdk

.PHONY: check
check: format-check vet lint tidy-check generate-check console-check scripts-check openapi-lint ## format, vet, lint, go.mod, generated and built files, shell scripts, OpenAPI document

.PHONY: console-check
console-check: ## whether the built files of the console, and its types of the API, are those of the sources (with Node and npm)
	@CHECK=1 bash .ci/console/build

.PHONY: format-check
format-check: $(BIN)/gofumpt
	@files=$$(git ls-files -co --exclude-standard --deduplicate -- '*.go' | while IFS= read -r f; do [[ ! -f $$f ]] || printf '%s\n' "$$f"; done | xargs -r $(BIN)/gofumpt -l); \
	  [[ -z $$files ]] || { printf 'not gofumpt-clean, run make format:\n%s\n' "$$files"; exit 1; }

.PHONY: format
format: $(BIN)/gofumpt ## write every Go file as gofumpt wants it
	@git ls-files -co --exclude-standard --deduplicate -- '*.go' | while IFS= read -r f; do [[ ! -f $$f ]] || printf '%s\n' "$$f"; done | xargs -r $(BIN)/gofumpt -w

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint alone (PKG=./ring/... for less)
	$(BIN)/golangci-lint run $(PKG)

.PHONY: tidy-check
tidy-check:
	go mod tidy -diff

.PHONY: generate-check
generate-check:
	@bash .ci/generate-check

.PHONY: scripts-check
scripts-check:
	@for f in $$(git ls-files -- '.ci/*' | while IFS= read -r f; do head -n 1 "$$f" | grep -q '^#!.*bash' && echo "$$f" || true; done); do bash -n "$$f"; done
	@if command -v shellcheck >/dev/null; then shellcheck $$(git ls-files -- '.ci/*' | xargs grep -lE '^#!.*bash'); \
	  else echo 'shellcheck is not installed: scripts were only parsed'; fi

.PHONY: openapi-lint
openapi-lint: ## redocly on the OpenAPI document (with Node and npm), by .ci/openapi/redocly.yaml
	@bash .ci/openapi/lint

.PHONY: sim
sim: ## the simulation with 10,000 short seeds and 20 long ones, an hour on two cores (SHORT=… LONG=…; SEED=42 replays one; RUN=TestSimulation/…)
	@CARILLON_SIM_SHORT=$(or $(SHORT),10000) CARILLON_SIM_LONG=$(or $(LONG),20) CARILLON_SIM_SEED=$(SEED) \
	  go test -count=1 -timeout 6h -run '$(or $(RUN),TestSimulation$$)' -v ./cmd/internal/sim \
	  | grep --line-buffered -vE '^(=== | +--- PASS)'

.PHONY: stops
stops: ## nodes are told to stop, or frozen, while runs wait: no run is called twice but what was under way in a freeze (TRIES=20; half an hour)
	CARILLON_STOPS=$(or $(TRIES),20) go test -count=1 -timeout 2h -run 'TestAStopOf|TestAFreeze' -v ./cmd/internal/node ./cmd/carillon | grep --line-buffered -vE 'level='

.PHONY: injected
injected: ## put in the bugs that are kept, one after the other: tests that pass without it must catch each (BUG=04; 20 minutes)
	CARILLON_INJECTED=$(or $(BUG),all) go test -count=1 -timeout 3h -run TestInjectedBugsAreCaught -v ./cmd/internal/sim

.PHONY: fuzz
fuzz: ## each fuzz target for a while (FUZZTIME=30s)
	@FUZZTIME='$(or $(FUZZTIME),30s)' bash .ci/fuzz

##@ Measure

.PHONY: bench
bench: build carillon-load ## every goal in small, on real clusters and carillon dev, with pass or falls short: 50 minutes (ROUNDS=1 ARGS=…)
	$(BIN)/carillon-load suite small --rounds $(or $(ROUNDS),1) $(ARGS)

.PHONY: bench-full
bench-full: build carillon-load ## everything, at full size: hours (ROUNDS=5 ARGS=…)
	$(BIN)/carillon-load suite full --rounds $(or $(ROUNDS),5) $(ARGS)

.PHONY: bench-workflows
bench-workflows: build carillon-load ## workflows on a cluster and on carillon dev, with their goals: half an hour (SYSTEM=dev ROUNDS=3 ARGS=…)
	for system in $(or $(SYSTEM),cluster dev); do \
	  $(BIN)/carillon-load bench W --system $$system --rounds $(or $(ROUNDS),3) --out .local/bench/workflows $(ARGS); done
	$(BIN)/carillon-load goals .local/bench/workflows/W-*.json | grep -v 'not measured'

.PHONY: bench-console
bench-console: build carillon-load ## 2,000 runs/s with and without ten open consoles, and pages with 10 M rows resident, on a cluster and on carillon dev, with their goals: an hour (SYSTEM=dev ROUNDS=5 SPAN=60s ROWS=10000000 ARGS=…)
	for system in $(or $(SYSTEM),cluster dev); do \
	  $(BIN)/carillon-load bench consoles pages --system $$system --rounds $(or $(ROUNDS),5) --span $(or $(SPAN),60s) --resident $(or $(ROWS),10000000) \
	    --out .local/bench/console $(ARGS); done
	$(BIN)/carillon-load goals .local/bench/console/{consoles,pages}-*.json | grep -v 'not measured'

.PHONY: microbench
microbench: $(BIN)/benchstat ## benchmarks of the hot paths into .local/bench (BENCH=. COUNT=6 PKG=./...; BASE=file compares)
	@mkdir -p .local/bench
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),6) -timeout 60m $(or $(PKG),./...) \
	  | tee .local/bench/$(VERSION).txt
	$(BIN)/benchstat $(BASE) .local/bench/$(VERSION).txt

.PHONY: bench-gate
bench-gate: ## benchmarks of the hot paths against the committed figures, in 40 s (UPDATE=1 writes them anew)
	go run ./loadtest/cmd/bench-gate $(if $(UPDATE),-update)

.PHONY: compare
compare: ## this commit beside an older one, in turn, by bench A, B, C and import: within 3 %, or not (BEFORE=commit ROUNDS=5 ARGS=…; 45 minutes, on a quiet machine)
	@BEFORE='$(BEFORE)' ROUNDS='$(or $(ROUNDS),5)' bash .ci/compare $(ARGS)

.PHONY: carillon-load
carillon-load:
	@mkdir -p $(BIN)
	go build -trimpath -o $(BIN)/carillon-load ./loadtest/cmd/carillon-load

.PHONY: chaos
chaos: ## jobs on a real cluster that is broken meanwhile; without SCENARIO it lists the scenarios (SCENARIO='faults cut-store …' SPAN=2h ARGS=…)
	@mkdir -p $(BIN)
	go build -o $(BIN)/carillon-load ./loadtest/cmd/carillon-load
	@if [[ -z '$(SCENARIO)' ]]; then exec $(BIN)/carillon-load chaos --list; fi; \
	  failed=; for s in $(SCENARIO); do $(BIN)/carillon-load chaos --scenario "$$s" $(if $(SPAN),--span $(SPAN)) $(ARGS) || failed+=" $$s"; done; \
	  [[ -z $$failed ]] || { echo "failed:$$failed"; exit 1; }

.PHONY: restore-drill
restore-drill: carillon-load ## backup and restore as deploy/OPERATING.md says, on a real cluster of its own, judged; 5 minutes (CASSANDRA=3 ARGS='--slow 2')
	$(BIN)/carillon-load restore --cassandra $(CASSANDRA) $(ARGS)

.PHONY: k6
k6: $(BIN)/k6 ## k6 scripts on a cluster of their own (PROFILE=smoke|average|stress|spike|soak SCRIPT=jobs.js; API=URL for one that is up)
	@bash .ci/k6/run

.PHONY: k6-check
k6-check: $(BIN)/k6 ## parse the k6 scripts with every profile, and see each threshold fail against a stub
	@INSPECT=1 bash .ci/k6/run
	CARILLON_K6='$(CURDIR)/$(BIN)/k6' go test -count=1 -parallel 20 ./loadtest/k6

# What measures Carillon in its turn: for the shell, which knows the variables. Make takes it as it is (value).
CARILLON_BENCH ?= .local/bin/carillon-load bench $PROTOCOL --n $N --rates $RATE --span $SPAN --targets $TARGET --payload $PAYLOAD --warm $WARM --out $RESULTS

.PHONY: peers
peers: export CARILLON_BENCH := $(value CARILLON_BENCH)
peers: build carillon-load ## River, asynq and (GOSCHEDULER=checkout) goscheduler by protocols A to C, interleaved (ROUNDS=5 N=100000 RATES=1000,… SPAN=60s PEERS=river,… ARGS=…)
	@bash loadtest/peers/install
	cd loadtest/peers && GOWORK=off go build -trimpath -o ../../$(BIN)/peers .
	$(BIN)/peers compare $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(N),--n $(N)) $(if $(RATES),--rates '$(RATES)') \
	  $(if $(SPAN),--span $(SPAN)) $(if $(PEERS),--systems '$(PEERS)') $(ARGS)

# The same for workflows, of which TARGET is the part.
CARILLON_WORKFLOWS_BENCH ?= .local/bin/carillon-load bench $PROTOCOL --system dev --workflows $TARGET --chains $N --pace $RATE --span $SPAN --warm $WARM --out $RESULTS

.PHONY: peers-workflows
peers-workflows: export CARILLON_BENCH := $(value CARILLON_WORKFLOWS_BENCH)
peers-workflows: build carillon-load $(BIN)/temporal ## carillon dev and Temporal's dev server by chains of five steps, in turn: steps a second, and p99 at 200 a second; half an hour (ROUNDS=3 CHAINS=10000 SPAN=60s PEERS=temporal,… ARGS=…)
	cd loadtest/peers && GOWORK=off go build -trimpath -o ../../$(BIN)/peers .
	$(BIN)/peers compare --protocols W --systems '$(or $(PEERS),temporal)' --rounds $(or $(ROUNDS),3) --warm 5000 \
	  $(if $(CHAINS),--chains $(CHAINS)) $(if $(SPAN),--span $(SPAN)) $(ARGS)

.PHONY: peers-check
peers-check: $(BIN)/golangci-lint ## vet, lint and test what measures peers; it is a module of its own
	cd loadtest/peers && GOWORK=off go mod tidy -diff && go vet ./... && ../../$(BIN)/golangci-lint run && go test ./...

.PHONY: alerts
alerts: ## deploy/monitoring: rules by promtool with their tests, and that alerts, runbooks, metrics and dashboards name what exists
	@bash .ci/alerts

.PHONY: monitoring
monitoring: ## deploy/monitoring: every panel of every dashboard, asked of a real Prometheus that scrapes Carillon under load with failures and a kill; 2 minutes (SYSTEM=dev|cluster SPAN=50s)
	@SYSTEM='$(SYSTEM)' SPAN='$(SPAN)' bash .ci/monitoring

.PHONY: dashboards
dashboards: ## write deploy/monitoring/dashboards anew, of deploy/monitoring/check/dashboards; and the rules in deploy/kubernetes
	cd deploy/monitoring/check && GOWORK=off go run ./generate

.PHONY: rules
rules: ## the rules of deploy/monitoring with a runbook_url that can be clicked, for Prometheus and for its operator, into a folder (RUNBOOKS=https://… OUT=.local/rules)
	cd deploy/monitoring/check && GOWORK=off go run ./generate -runbooks '$(RUNBOOKS)' -out '$(abspath $(or $(OUT),.local/rules))'

.PHONY: manifests
manifests: ## deploy/kubernetes: every overlay as a Kubernetes API server would judge it, then planted faults, and which are refused (OVERLAYS=… for others)
	@bash .ci/manifests $(OVERLAYS)

.PHONY: manifests-cluster
manifests-cluster: ## the same on a real API server, scheduler and controllers, with machines that kwok plays: applies, rolls out, scales, drains; half an hour the first time
	@bash .ci/manifests-cluster

.PHONY: release-check
release-check: $(BIN)/actionlint $(BIN)/goreleaser ## workflows and GoReleaser's configuration, by actionlint and goreleaser check; their programs take minutes to build
	$(BIN)/actionlint .github/workflows/*.yaml
	@# it asks for the remote that releases go to, which a checkout need not have
	rm -rf .local/release && git init -q .local/release && cp .goreleaser.yaml .local/release
	cd .local/release && git remote add origin https://github.com/carillon/carillon && $(CURDIR)/$(BIN)/goreleaser check

##@ Tools

TOOLS := golangci-lint gofumpt gotestsum benchstat

.PHONY: tools
tools: $(TOOLS:%=$(BIN)/%) ## build golangci-lint, gofumpt, gotestsum and benchstat, as pinned in .ci/tools/go.mod

# The tools have a go.mod of their own, so that none of their dependencies is the product's. A tool is built again only
# if that changes. TOOLFLAGS='-p 1' leaves a core to others.
$(BIN)/golangci-lint: IMPORT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/gofumpt:       IMPORT := mvdan.cc/gofumpt
$(BIN)/gotestsum:     IMPORT := gotest.tools/gotestsum
$(BIN)/benchstat:     IMPORT := golang.org/x/perf/cmd/benchstat
$(TOOLS:%=$(BIN)/%): .ci/tools/go.mod .ci/tools/go.sum
	@mkdir -p $(BIN)
	cd .ci/tools && GOWORK=off go build -mod=readonly $(TOOLFLAGS) -trimpath -o ../../$@ $(IMPORT)
	@touch $@

# Temporal's dev server, which is measured beside Carillon. Later versions replace a module, which `go install` refuses.
TEMPORAL := v1.5.1
$(BIN)/temporal:
	@mkdir -p $(BIN)
	GOWORK=off GOBIN='$(CURDIR)/$(BIN)' go install $(TOOLFLAGS) -trimpath github.com/temporalio/cli/cmd/temporal@$(TEMPORAL)

# What checks releases. Later versions of GoReleaser want a later Go.
ACTIONLINT := v1.7.7
$(BIN)/actionlint:
	@mkdir -p $(BIN)
	GOWORK=off GOBIN='$(CURDIR)/$(BIN)' go install $(TOOLFLAGS) -trimpath github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)

GORELEASER := v2.15.0
$(BIN)/goreleaser:
	@mkdir -p $(BIN)
	GOWORK=off GOBIN='$(CURDIR)/$(BIN)' go install $(TOOLFLAGS) -trimpath github.com/goreleaser/goreleaser/v2@$(GORELEASER)

# k6 takes minutes to build, so it is no part of `make tools`.
$(BIN)/k6: .ci/k6/go.mod .ci/k6/go.sum
	@mkdir -p $(BIN)
	cd .ci/k6 && GOWORK=off go build -mod=readonly $(TOOLFLAGS) -trimpath -o ../../$@ go.k6.io/k6
	@touch $@

.PHONY: clean
clean: ## stop the cluster of `make up` and remove .local
	@if [[ -d $(DIR) ]]; then go run ./deploy/local down --dir '$(DIR)'; fi
	rm -rf .local
