# make run needs git, make and Go; make test installs what else it needs (Debian packages, as root).

export CGO_ENABLED = 0

TOOL  = go tool -modfile=tools/go.mod
SDBED ?= ../shared/testbed/sdbed-ns.sh
SDBED_UML ?= ../shared/testbed/sdbed-uml.sh

.PHONY: help sim build run test check gofmt vet staticcheck tidy unit packages test-systemd test-limits bench bench-loop bench-quick clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

run: build ## build superd and run two programs that print random numbers (Ctrl-C ends it)
	@# A job of its own in the terminal, so that Ctrl-C reaches superd alone and make tells how it ended.
	@bash -mc './superd run -c examples/random/superd.toml; exit $$?'

build: ## build ./superd, one static binary
	go build -trimpath -o superd ./cmd/superd

test: packages check unit ## install what the tests need, then run every check and every test

packages: ## install what the tests need
	tests/install-packages.sh

check: gofmt vet staticcheck tidy build ## the checks that need no test run

gofmt:
	@files=$$(gofmt -l .); test -z "$$files" || { echo "not gofmt'ed: $$files"; exit 1; }

vet:
	go vet ./...

staticcheck:
	$(TOOL) staticcheck ./...

tidy:
	go mod tidy -diff
	cd tools && go mod tidy -diff

# The race detector needs cgo and a C compiler; the tests build the static superd themselves.
# Histories of one goroutine have no races, the programs of the torture are to be fast, and under the detector a birth keeps one of Go's processors: these run without it.
unit:
	CGO_ENABLED=1 go test -race -timeout 10m $$(go list ./... | grep -v /tests/torture)
	go test -run "Simulation|PlantedDefects" ./procs
	go test -run HoldsUpNobody ./pidfd
	go test ./tests/torture

test-systemd: build ## run the unit in packaging/ under a real systemd (root; SDBED=path of the bed's script)
	SDBED="$(SDBED)" tests/systemd/run.sh

test-limits: build ## limits of memory, CPU and tasks on User Mode Linux (root; SDBED_UML=path of the bed's script)
	SDBED_UML="$(SDBED_UML)" tests/limits/run.sh

ONLY ?=
bench: ## measure superd beside its peers and yardsticks (about 15 minutes; ONLY=restart a part); UPDATE=1 writes docs/benchmarks.md
	go test -run '^$$' -bench 'Supervisors$(if $(ONLY),/$(ONLY))' -benchtime 1x -timeout 40m ./tests/bench $(if $(UPDATE),$(if $(ONLY),$(error a part is not written into the documentation),-update))

bench-quick: ## run all that make bench measures in small, to see that it works (1 minute)
	go test -run Supervisors -count=1 -parallel 6 -timeout 10m ./tests/bench -quick

bench-loop: ## measure the loop, against libuv and libev where libuv1-dev and libev-dev are installed (about 3 minutes); UPDATE=1 writes docs/loops.md
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./tests/loopbench $(if $(UPDATE),-update)

KILLS ?= 1000
torture: ## kill superd KILLS times at random instants and at each crashpoint, and upgrade it 200 times, under load (about 10 minutes)
	go test ./tests/torture -v -count=1 -timeout 60m -torture.kills $(KILLS) -torture.upgrades 200 -torture.programs 200

N    ?= 1000000
FROM ?= 1
sim: ## simulate N histories (a million), those of the seeds from FROM on, and print how many a second
	go test ./procs -run 'TestSimulation$$' -v -timeout 60m -sim.n $(N) -sim.from $(FROM)

clean: ## remove what was built and what the example logged
	rm -rf superd examples/random/log examples/random/run
