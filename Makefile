# make run needs git, make and Go; make test installs what else it needs (Debian packages, as root).

export CGO_ENABLED = 0

TOOL  = go tool -modfile=tools/go.mod
SDBED ?= ../shared/testbed/sdbed-ns.sh
SDBED_UML ?= ../shared/testbed/sdbed-uml.sh

.PHONY: image help sim backrefs lives fuzz build shim run test check gofmt columns vet lint cross cross-build vulncheck tidy unit quick deps test-systemd test-alerts test-sandbox test-limits test-daemons test-sockets test-containers test-engines test-metrics bench bench-sandbox bench-loop bench-quick clean test-schema test-switch test-tini test-web docs test-docs recording packages release test-packages

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

run: build ## build superd and run two programs that print random numbers, until Ctrl-C
	@# A job of its own in the terminal, so that Ctrl-C reaches superd alone and make shows how it ended.
	@bash -mc './superd run -c examples/random/superd.toml; exit $$?'

build: shim ## build ./superd and ./superd-ui, static binaries
	go build -trimpath -o superd ./cmd/superd
	go build -trimpath -ldflags='-s -w' -o superd-ui ./cmd/superd-ui

packages: ## build deb, rpm, apk, archives, SBOMs and an image into dist/ (amd64 and arm64; 3 minutes)
	rm -rf dist
	FORMATS="deb rpm apk tar.gz cdx.json image" packaging/build.sh dist

image: ## build a container image into dist/ (amd64 and arm64; 2 minutes)
	FORMATS=image packaging/build.sh dist

release: ## make packages, of a commit that has a tag vX.Y.Z
	@packaging/version.sh --tag
	@$(MAKE) --no-print-directory packages

# The exec shim with the sandbox is embedded in superd. GOARCH applies to both.
shim:
	go build -trimpath -ldflags='-s -w' -o sandbox/shim/bin/superd-exec ./cmd/superd-exec

test: deps check unit ## run every check and test; installs what they need first, as root on Debian

deps: ## install Debian packages that the tests need and that are missing (root)
	tests/install-deps.sh

check: gofmt columns vet lint tidy build cross ## run all checks that need no test

gofmt:
	@files=$$(gofmt -l .); test -z "$$files" || { echo "not gofmt'ed: $$files"; exit 1; }

columns: ## check that comments and prose end at column 100
	@go -C tools run ./columns

vet:
	go vet ./...
	go -C tools vet ./...

lint: ## run golangci-lint with the linters of .golangci.yml
	$(TOOL) golangci-lint run ./...
	cd tools && go tool golangci-lint run ./...

# Types are checked for all platforms, which takes seconds. What has assembly is vetted and built, and
# superd is built for arm64. On systems other than Linux there are superd check and superd ctl.
ARCHITECTURES = arm64 riscv64 386 arm ppc64le s390x loong64
cross: ## check the types for every architecture, and build some
	go -C tools run ./typecheck $(ARCHITECTURES:%=linux/%) linux/amd64,superd_forkexec
	go -C tools run ./typecheck darwin/arm64 -- ./cmd/superd ./cmd/superd-ui
	GOOS=darwin GOARCH=arm64 go vet ./cmd/superd
	GOARCH=riscv64 go vet ./pidfd/...
	GOARCH=riscv64 go build ./pidfd/...
	GOARCH=arm64 go vet ./pidfd/...

cross-build: ## build superd for every architecture and for macOS
	@set -e; for arch in $(ARCHITECTURES); do \
		echo "go build: linux/$$arch"; \
		GOARCH=$$arch go build -o /dev/null ./cmd/superd ./cmd/superd-exec ./cmd/superd-ui; \
	done
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/superd

vulncheck: ## look for known vulnerabilities in what superd uses (needs vuln.go.dev)
	$(TOOL) govulncheck ./...

tidy:
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd tests/web && go mod tidy -diff
	cd tests/engines && go mod tidy -diff
	cd packaging/container && go mod tidy -diff
	cd packaging/tools && go mod tidy -diff

# The race detector needs cgo and a C compiler. It runs with the packages that have goroutines beside
# the loop's, without their longest tests, which run again without it. The tests of superd as a
# whole build the static superd themselves, and wait more than they compute, so eight of them run at
# a time. With the tag superd_forkexec the tests build a superd with the plain fork of Go.
SIMULATION = Simulation|PlantedDefects
RACES      = /(alerts|alerts/.*|control/remote|control/server|keeper|keeper/.*|logs|logs/.*|loop|loop/task|pidfd|procs/(eventlog|execprobe|handover|journal|linux|linux/.*|notify|filewatch|onconnect|outputevents|probe|pty|reaper|rundir|sockets)|signals)$$
FORKS      = ^Test(ExecFails|InstantExits|KilledChildIsBack|Identity|StopOrder|Upgrade)$$
unit:
	CGO_ENABLED=1 go test -race -short -timeout 10m $$(go list ./... | grep -E '$(RACES)')
	go test -timeout 10m -parallel 8 ./tests
	go test ./logs $$(go list ./... | grep -v -E '$(RACES)' | grep -v -e /procs$$ -e /tests$$ -e /tests/torture)
	go test -skip '$(SIMULATION)' ./procs
	go test -v -run '$(SIMULATION)' ./procs
	go test -run HoldsUpNobody ./pidfd
	go test -tags superd_forkexec ./pidfd
	go test -tags superd_forkexec -run '$(FORKS)' ./tests
	go test ./tests/torture -torture.kills 10
	go -C tools test ./...
	go -C tests/engines test ./...
	go -C packaging/container test ./...

# The program is built by the tests, which the cache of results does not know: -count=1.
quick: ## run the tests that find most in little time: no race detector, no simulation (90 seconds)
	go test -short -skip '$(SIMULATION)' $$(go list ./... | grep -v /tests) ./tests/house ./tests/table
	go test -short -count=1 -parallel 8 -skip 'OnFullDisk|WithoutSupervisor' \
		-run '^Test(Logs|Re|Status|Stop|Upgrade)' ./tests

test-systemd: build ## test packaging/superd.service under systemd (root; SDBED=script of the test bed)
	SDBED="$(SDBED)" tests/systemd/run.sh

test-alerts: ## deliver 10,000 alerts while superd is killed again and again (10 minutes)
	SUPERD_TEST_ALERTS=10000 go test ./tests -run AlertsSurviveKills -count=1 -v -timeout 20m

test-sandbox: ## compare sandboxes with those of systemd (root; 20 seconds; UPDATE=1 writes docs)
	go test ./tests/sandbox -run Escapes -count=1 -v -timeout 5m -bed "$(abspath $(SDBED))" $(if $(UPDATE),-update)

test-limits: build ## test limits of memory, CPU and tasks (root; SDBED_UML=script of the test bed)
	SDBED_UML="$(SDBED_UML)" tests/limits/run.sh

test-daemons: ## install and test daemons of Debian (root; 4 minutes)
	tests/daemons/install-deps.sh
	go test ./tests/daemons -daemons -count=1 -v -timeout 15m

test-sockets: ## restart servers behind held sockets 20 times, under load (root; 15 minutes)
	tests/daemons/install-deps.sh
	go test ./tests/daemons -daemons -run SocketOf -rounds 20 -parallel 1 -count=1 -v -timeout 30m

test-containers: ## test superd as PID 1 of containers, and its image (root)
	tests/containers/install-deps.sh
	go test ./tests/containers -count=1 -timeout 10m -v -containers

PACKAGES_TREE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/superd-test-packages
test-packages: ## install, upgrade and remove the packages, under systemd and not (root; SDBED=script)
	tests/packages/install-deps.sh "$(PACKAGES_TREE)"
	go test ./tests/packages -packages -count=1 -v -timeout 30m -bed "$(abspath $(SDBED))" -tree "$(PACKAGES_TREE)/bookworm"

# Where Nomad and the API server of Kubernetes are built, once a version
ENGINES ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/superd-test-engines
test-engines: build ## run exports on Nomad, Kubernetes and systemd (root; SDBED=script; first 30 minutes, then 2)
	tests/engines/install-deps.sh
	tests/engines/build.sh "$(ENGINES)"
	go -C tests/engines test -count=1 -v -timeout 15m -engines "$(abspath $(ENGINES))" -bed "$(abspath $(SDBED))" .

test-metrics: ## have Debian's Prometheus scrape and check the metrics of superd (root; 4 minutes)
	tests/prometheus/install-deps.sh
	go test ./tests/prometheus -prometheus -count=1 -v -timeout 10m

# The versions whose answers the tests know.
SCHEMA_TOOLS = @taplo/cli@0.7.0 @taplo/lsp@0.8.0 @redocly/cli@2.77.0
test-schema: ## have taplo and redocly check the schema and openapi.yaml (needs npm; 1 minute)
	@set -e; tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$$tools" $(SCHEMA_TOOLS); \
	go test ./tests/schema -count=1 -v -timeout 10m -tools "$$tools/node_modules/.bin"

INITS ?= /tmp/superd-test-inits
test-tini: ## run the test-suites of tini and dumb-init against superd (root; 3 minutes)
	tests/inits/install-deps.sh $(INITS)
	go test ./tests/inits -inits -sources $(INITS) -count=1 -v -timeout 15m

UNITS ?= /tmp/superd-test-units
test-switch: ## compare with Debian's supervisor, and run imported units (root; 8 minutes)
	tests/switch/install-deps.sh $(UNITS)
	tests/supervisor/install-deps.sh
	tests/daemons/install-deps.sh
	go test ./importer/supervisord -run Oracle -oracle -count=1 -v
	go test ./tests/switch -switch -units $(UNITS) -count=1 -v -timeout 15m
	go test ./tests/supervisor -supervisor -count=1 -v -timeout 20m
	go test ./tests/daemons -daemons -units -run ImportedUnits -parallel 3 -count=1 -v -timeout 10m

# What npm fetches for the tests of the pages
WEB_DEPS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/superd-test-web
FLOOD    ?= 60s
test-web: ## test the pages of superd web in Debian's chromium (root; 5 minutes; UPDATE=1 writes docs)
	tests/web/install-deps.sh "$(WEB_DEPS)"
	AXE="$(WEB_DEPS)/node_modules/axe-core/axe.min.js" WEB_FLOOD=$(FLOOD) WEB_IMAGES=$(if $(UPDATE),$(abspath docs/images)) \
		go -C tests/web test -count=1 -v -timeout 20m .

SITE      ?= site
DOCS_DEPS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/superd-test-docs
docs: ## build the documentation as a site with a search, in SITE=site (Debian's mkdocs-material)
	tests/docs/install-deps.sh
	@set -e; pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; \
	go -C tools run ./site "$$pages"; \
	SITE_PAGES="$$pages" /usr/bin/mkdocs build -q -f mkdocs.yml -d "$(abspath $(SITE))"

test-docs: docs ## run the examples of the pages, other supervisors, the site (root; 3 minutes; UPDATE=1 writes docs)
	tests/docs/install-deps.sh "$(DOCS_DEPS)"
	PATH="$(DOCS_DEPS)/node_modules/.bin:$$PATH" go test ./tests/docs -docs -site "$(abspath $(SITE))" \
		-parallel 4 -count=1 -v -timeout 15m $(if $(UPDATE),-update)
	$(if $(UPDATE),@$(MAKE) --no-print-directory recording)
	go -C tests/web test -run SiteSearch -site "$(abspath $(SITE))" -count=1 -v -timeout 5m .

recording: ## draw docs/images/tutorial.svg of the recording that make test-docs UPDATE=1 has made
	go -C tools run ./recording ../docs/images/tutorial.cast ../docs/images/tutorial.svg

ONLY   ?=
ROUNDS ?= 3
PEERS  ?= 1
bench: ## compare with other supervisors (20 minutes; ONLY=part; UPDATE=1 writes docs)
	go test -run '^$$' -bench 'Supervisors$(if $(ONLY),/$(ONLY))' -benchtime 1x -timeout 60m ./tests/bench -rounds $(ROUNDS) -rounds.peers $(PEERS) $(if $(UPDATE),$(if $(ONLY),$(error a part is not written into the documentation),-update))

bench-sandbox: ## measure what a sandbox adds to the start of a program (root; 2 minutes)
	go test ./tests/sandbox -run '^$$' -bench Start -benchtime 3x -timeout 15m

bench-quick: ## run all of bench in small, to see that it works (1 minute)
	go test -run Supervisors -count=1 -parallel 6 -timeout 10m ./tests/bench -quick

bench-loop: ## compare the loop with libuv and libev (3 minutes; UPDATE=1 writes docs)
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./tests/loopbench $(if $(UPDATE),-update)

KILLS ?= 1000
torture: ## kill superd KILLS=1000 times and upgrade it 200 times, under load (10 minutes)
	go test ./tests/torture -v -count=1 -timeout 60m -torture.kills $(KILLS) -torture.upgrades 200 -torture.programs 200

FUZZTIME ?= 30s
fuzz: ## run each fuzz target for FUZZTIME=30s (10 minutes in all)
	@listed=$$(go test -list '^Fuzz' $$(go list ./... | grep -v /tests)) || exit 1; \
	echo "$$listed" | \
	awk '/^Fuzz/ { names[n++] = $$1 } $$1 == "ok" { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	done

N    ?= 1000000
FROM ?= 1
sim: ## simulate N=1000000 histories from seed FROM=1; count violations by kind
	go test ./procs -run 'TestSimulation$$' -v -timeout 6h -sim.n $(N) -sim.from $(FROM)

PACKAGES ?= ./...
backrefs: ## print how many uses between files run back (PACKAGES="./procs ./logs")
	@go -C tools run ./backrefs $(PACKAGES)

lives: ## print through how many files an exit, a reload and others go
	@go -C tools run ./lives

clean: ## remove what was built, and the output of the example
	rm -rf superd superd-ui dist examples/random/log examples/random/run
