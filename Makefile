# Ringlet. Run `make` or `make help` for the list of targets.
# `make test` and `make build` need Go and nothing else; the other tools are fetched at their pinned versions into ./.tools.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# One way to compile, for the program, the tests and the linters, so that each package is compiled once: without C, and
# without the paths of this machine.
export CGO_ENABLED := 0
export GOFLAGS     := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

TOOLS    := $(CURDIR)/.tools
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
FUZZTIME ?= 30s
ARGS     ?=

# Pinned tools: <module> <package path under it> <version>. The version a binary was built from stands in the binary itself,
# so an installed tool is kept only if it is the one pinned here.
GOLANGCI_VERSION    := v2.15.0
BUF_VERSION         := v1.73.0
PROTOC_GEN_GO       := v1.36.12
PROTOC_GEN_GO_GRPC  := v1.6.2
# The gateway's version is go.mod's: what it generates calls its runtime.
GRPC_GATEWAY        := v2.31.0
GOVULNCHECK_VERSION := v1.8.0
NFPM_VERSION        := v2.43.4

# $(call tool,name,package,version) installs the tool unless that very version is there.
define tool
@if [ "$$(go version -m $(TOOLS)/$(1) 2>/dev/null | awk '$$1 == "mod" {print $$3}')" != "$(3)" ]; then \
	echo "installing $(1) $(3) into .tools"; mkdir -p $(TOOLS); GOBIN=$(TOOLS) GOFLAGS=-trimpath go install $(2)@$(3); fi
endef

.PHONY: help
help: ## list the targets
	@echo "Ringlet, a distributed event builder. Targets:"
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build, then run a whole system on this machine: make run ARGS='--nodes 8 --duration 3s'
	@bin/ringlet run $(ARGS)

# What takes long, and two thirds of the cases of a fault, are left to test-long: -short, see testkit/cases.
# Many tests wait, so more packages than processors are under way. A test binary lives for seconds: it is linked without what a
# debugger needs, which takes a third off; stacks of a panic have their lines. Go vets a package each time that it tests it, which
# is a fifth of what a package costs whose tests are short: lint does it, once.
BRIEF   := -ldflags=-w
TESTING := -short -vet=off $(BRIEF) -p $(shell echo $$((2 * $$(nproc))))

.PHONY: test
test: ## the tests, in their short form; needs Go alone
	@(cd checks/soak && go test $(TESTING) ./...) & soak=$$!; code=0; \
	go test $(TESTING) ./... || code=$$?; wait $$soak || code=$$?; exit $$code

.PHONY: test-long
test-long: ## all tests with all their cases
	go test -timeout 30m ./...
	cd checks/soak && go test ./...

# $(call testing,Kind) is the packages with tests of a kind: the test binaries of the others need not be linked.
testing = $$(git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^func $(1)' | xargs -n 1 dirname | sed 's|^|./|' | sort -u)

.PHONY: check-forged
check-forged: ## a million forged packets to each link of quic and a feed of EJFAT's segments, messages to an owner of memory, descriptors at a memory gateway
	go test -count=1 -timeout 30m ./transport/quic ./source/ejfat ./memory ./memory/gateway \
		-run 'TestForged(Packets|Messages|Descriptors)$$' -forged 1000000

# Debian's packages, where they are missing and can be installed: by root.
.PHONY: tool-compilers
tool-compilers:
	@missing=(); for c in gcc:gcc g++:g++ clang:clang clang++:clang; do \
		command -v "$${c%:*}" >/dev/null || missing+=("$${c#*:}"); done; \
	python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null || missing+=(python3-numpy); \
	if [ $${#missing[@]} != 0 ]; then \
		echo "installing $${missing[*]}"; export DEBIAN_FRONTEND=noninteractive; \
		timeout 60 apt-get update -qq >/dev/null && timeout 120 apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi

.PHONY: check-headers
check-headers: ## the headers of clients/c as C11, C17, C++17 and C++20, with gcc and clang; a compiler that is missing is a failure
	go test -count=1 ./clients/frontend -run '^TestHeaders$$' -compilers

.PHONY: check-readers
check-readers: ## recordings, sound and damaged, read by the clients in Python (with NumPy) and C++
	go test -count=1 -short ./recording -run '^TestClients' -v

# The schedules take about 16 minutes of a processor that has nothing else to do.
HISTORIES ?= 10000
SCHEDULES ?= 1000000
.PHONY: check-memory
check-memory: ## remote memory: HISTORIES (10000) of words that must be linearizable, SCHEDULES (1000000) of races with the end of an export
	go test -count=1 -timeout 30m ./memory -v -run TestWordsAreLinearizable -histories $(HISTORIES)
	go test -count=1 -timeout 30m ./memory -v -run TestEveryCarrierIsLinearizable -carrier-histories $(HISTORIES)
	go test -count=1 -timeout 4h ./memory -v -run TestNothingOutsideAGrant -schedules $(SCHEDULES)

# About two minutes. Each of the ten senders of the five patterns sends 100 million words, and ping-pong's come back.
.PHONY: check-patterns
check-patterns: build ## a thousand million words between nodes in the patterns of NIC-crossbar §4.2, each checked at its receiver
	bin/ringlet bench patterns --words 100000000 --sizes 4KiB --duration 20m

# The packages whose goroutines share memory: they have locks or atomics. The program, its measurements and the simulations use
# these; all packages, and all cases, are in race-long.
racing = $$(go list -f '{{.ImportPath}} {{.Imports}} {{.TestGoFiles}} {{.XTestGoFiles}}' ./... \
	| awk '/[[ ]sync[] \/]/ && /_test\.go/ && !/^ringlet\/(cmd|lab|sim|event)\// {print $$1}')

# What walks through all orders of steps does so in one goroutine, and clients in other languages are processes of their own.
alone = Interleaving|OtherLanguages|StreamInC|StreamExampleInC|Headers|Examples

.PHONY: race
race: ## the short form under the race detector, shuffled, of the packages whose goroutines share memory
	CGO_ENABLED=1 go test -race $(TESTING) -skip '$(alone)' -shuffle=on -count=1 $(racing)

.PHONY: race-long
race-long: ## all tests with all their cases under the race detector, shuffled
	CGO_ENABLED=1 go test -race -vet=off -shuffle=on -count=1 -timeout 2h ./...

.PHONY: lint
lint: tool-golangci-lint tool-proto ## formatting, linters, import layers, proto rules, generated code up to date
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ -f "$$f" ] && echo "$$f"; done | xargs -r gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(TOOLS)/golangci-lint run ./...
	cd convert && $(TOOLS)/golangci-lint run ./...
	cd checks/soak && $(TOOLS)/golangci-lint run ./...
	$(TOOLS)/buf lint
	@$(MAKE) --no-print-directory proto-check

# A package for each processor at a time, with one worker each.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s) each: make fuzz FUZZTIME=5s
	@xargs -P "$$(nproc)" -I {} $(MAKE) --no-print-directory fuzz-package PACKAGE={} <<<"$(call testing,Fuzz)"; \
	echo "$$(cat $$(git ls-files '*_test.go') | grep -c '^func Fuzz') fuzz targets, $(FUZZTIME) each, no failure"

# Minimising every interesting input would eat a short FUZZTIME whole; ten steps are enough. Go's fuzzer now and then fails with
# "context deadline exceeded" when its time runs out in the middle of an input; a real failure names the failing input.
.PHONY: fuzz-package
fuzz-package: ## the fuzz targets of one package: make fuzz-package PACKAGE=./event
	@bin=$$(mktemp); trap 'rm -f "$$bin"' EXIT; cache=$$(go env GOCACHE)/fuzz/$$(go list $(PACKAGE)); \
	go test -vet=off $(BRIEF) -c -fuzz . -o "$$bin" $(PACKAGE); cd $(PACKAGE); \
	for name in $$("$$bin" -test.list '^Fuzz'); do \
		if out=$$("$$bin" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzzcachedir "$$cache" -test.parallel 1 \
			-test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x </dev/null 2>&1); then \
			printf 'fuzz $(PACKAGE) %s\n%s\n' "$$name" "$$(tail -n 2 <<<"$$out")"; \
		else \
			printf 'fuzz $(PACKAGE) %s\n%s\n' "$$name" "$$out"; \
			if ! grep -q 'context deadline exceeded' <<<"$$out" || grep -q 'Failing input' <<<"$$out"; then exit 1; fi; \
			echo "the fuzzer's own clock ran out in the middle of an input; none failed"; \
		fi; \
	done

.PHONY: bench
bench: ## every benchmark once, so that none can rot (figures need more: go test -bench X -count 5 ./package)
	go test -vet=off $(BRIEF) -run '^$$' -bench . -benchtime 1x -benchmem $(call testing,Benchmark)

.PHONY: proto
proto: tool-proto ## regenerate from proto/: messages, gRPC, HTTP, the OpenAPI document
	PATH="$(TOOLS):$$PATH" $(TOOLS)/buf generate

.PHONY: assembly
assembly: ## regenerate the assembly of transport/gcm and internal/crc32c
	cd internal/assembly/gcm && go generate
	cd internal/assembly/crc32c && go generate

# Regenerates into a temporary folder and compares both ways, so that it also works in a tree with other changes.
.PHONY: proto-check
proto-check: tool-proto
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	PATH="$(TOOLS):$$PATH" $(TOOLS)/buf generate -o "$$tmp"; \
	listing() { (cd "$$1" && find . -name .tools -prune -o \( -name '*.pb.go' -o -name '*.pb.gw.go' -o -name '*.swagger.json' \) -print | sort); }; \
	if ! diff <(listing .) <(listing "$$tmp") >/dev/null || \
	   ! (cd "$$tmp" && listing . | while read -r f; do cmp -s "$$f" "$(CURDIR)/$$f" || { echo "out of date: $$f"; exit 1; }; done); then \
		echo "generated code is not what proto/ gives: run 'make proto' and commit the result"; exit 1; fi

.PHONY: build
build: ## bin/ringlet, one static binary
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ringlet ./cmd/ringlet

# The converter is a module of its own, which convert/go.work joins with this one.
.PHONY: convert
convert: ## bin/ringlet-convert: Parquet, ROOT, HDF5, NumPy and JSON lines of recorded data (docs/analysis.md)
	@mkdir -p bin
	cd convert && go build -ldflags '$(LDFLAGS)' -o ../bin/ringlet-convert .

# The programs in which others read the files go by npm, at the versions and checksums of convert/readers. Where npm is
# not there or reaches nothing, they are left out aloud.
READERS := $(TOOLS)/readers
.PHONY: tool-readers
tool-readers:
	@command -v node >/dev/null && command -v npm >/dev/null || \
		{ echo "files read by others: NOT CHECKED, there is no node or no npm here"; rm -rf $(READERS); exit 0; }; \
	if ! cmp -s convert/readers/package-lock.json $(READERS)/installed; then \
		echo "installing readers of Parquet and ROOT into .tools"; rm -rf $(READERS); mkdir -p $(READERS); \
		cp convert/readers/package.json convert/readers/package-lock.json $(READERS); \
		if ! (cd $(READERS) && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1) >$(READERS)/npm.log 2>&1; then \
			cat $(READERS)/npm.log; \
			if ! grep -Eq 'code (ENOTFOUND|EAI_AGAIN|ECONN[A-Z]+|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)' $(READERS)/npm.log; then exit 1; fi; \
			echo "files read by others: NOT CHECKED, npm reaches no registry"; rm -rf $(READERS); exit 0; \
		fi; \
		cp $(READERS)/package-lock.json $(READERS)/installed; \
	fi; \
	cp convert/readers/*.mjs $(READERS)

.PHONY: check-convert
check-convert: convert tool-readers ## the tests of the converter, and its files read by others: hyparquet, Arrow in Rust, JSROOT, h5py, h5dump
	@for p in python3 /usr/bin/python3; do $$p -c 'import h5py' 2>/dev/null && exit; done; \
		echo "HDF5 and NumPy files read by Python: NOT CHECKED, there is no h5py here (Debian: python3-h5py)"
	@command -v h5dump >/dev/null || echo "HDF5 files read by h5dump: NOT CHECKED, it is not here (Debian: hdf5-tools)"
	cd convert && RINGLET_READERS=$(READERS) go test -count=1 ./...

.PHONY: demo
demo: build convert ## a test beam on this machine: seven front-ends, slow data, a run with its page, a drift alarm, its events converted (examples/testbeam)
	examples/testbeam/demo.sh

# Ten million fragments: some minutes, and some GB below the temporary directory.
.PHONY: check-testbeam
check-testbeam: build convert ## the same, its front-ends killed at random: EVENTS (2500000), RATE, SEED, EVERY seconds; each fragment once
	examples/testbeam/kills.sh
	EVENTS= examples/testbeam/ends.sh

# Ten million fragments, a hundred thousand of them large: 100 GB through memory, and nothing on the disk. Half an hour.
.PHONY: check-sizes
check-sizes: build ## fragments of many sizes over every kind of input: EVENTS (2000000), EVERY (100) how often one is large; each once
	examples/testbeam/sizes.sh

.PHONY: figures
figures: build ## play the figures of the founding documents, and write sim/documents/results
	bin/ringlet sim figures --json --page sim/documents/results/figures.html > sim/documents/results/figures.json.part
	mv sim/documents/results/figures.json.part sim/documents/results/figures.json

# Needs root. On a machine that nobody else uses; what others use of it meanwhile stands beside the figures.
MEASURED      ?= measured
MEASURED_ARGS ?=
.PHONY: measured
measured: build ## measure what the documents ask of the real system into the directory MEASURED; then make figures
	bin/ringlet bench sweep lab/sweeps/figures.yaml --out $(MEASURED) $(MEASURED_ARGS)
	cp $(MEASURED)/answers.json sim/documents/figures/measured.json

# As root it has hosts on a switch, with faults of network and disk; otherwise processes on loopback.
SOAK      ?= 10m
SOAK_ARGS ?=
.PHONY: soak
soak: build ## run after run while things break, and what was built is there (docs/soak.md): make soak SOAK=60m
	cd checks/soak && go build -o ../../bin/soak .
	bin/soak -for $(SOAK) -bin bin/ringlet $(SOAK_ARGS)

# About half an hour; as root with hosts, too. ROWS has words that a row must have, with commas: ROWS='hosts, kill'.
ROWS ?=
.PHONY: check-faults
check-faults: build ## a table: each fault at each kind of process, how long the others stood still, what is missing, when all was whole again (docs/soak.md)
	cd checks/soak && go build -o ../../bin/soak .
	bin/soak -faults -rows "$(ROWS)" -bin bin/ringlet $(SOAK_ARGS)

# As root it also sends recorded datagrams again.
TIME         ?= 30m
HOSTILE_ARGS ?=
.PHONY: hostile
hostile: build ## strangers do what they can against a run, which must lose nothing that was safe (docs/soak.md): make hostile TIME=30m
	cd checks/soak && go build -o ../../bin/soak .
	bin/soak -hostile -for $(TIME) -bin bin/ringlet $(HOSTILE_ARGS)

# A quarter of an hour to an hour, by the machine and what else it does.
EVENTS ?= 100000000
.PHONY: check-chain
check-chain: build ## detector data, builder units, filters, decisions: one for each of 100,000,000 events, in order, while they are killed (docs/soak.md)
	cd checks/soak && go build -o ../../bin/soak .
	bin/soak -chain $(EVENTS) -for 3h -bin bin/ringlet $(SOAK_ARGS)

# The checks of what is deployed are a module of their own, without a path to cut: its packages are then those that the lab has built.
.PHONY: check-deploy
check-deploy: build ## manifests, units and the compose file against the API server's rules, systemd and the program
	cd checks && go test -count=1 ./manifests

.PHONY: check-page
check-page: ## the page of the run control in a real browser; needs chromium
	@command -v chromium >/dev/null || { echo "page: NOT CHECKED, there is no chromium here"; exit 0; }; \
	cd checks && go test -count=1 ./screens

.PHONY: screenshots
screenshots: ## two pictures of the page of a real partition into docs/pictures; needs chromium
	@command -v chromium >/dev/null || { echo "no pictures: there is no chromium here"; exit 1; }; \
	cd checks && go test -count=1 -timeout 10m ./screens -run RealPartition -shots $(CURDIR)/docs/pictures

.PHONY: image
image: build ## ringlet:dev, an image FROM scratch (docker)
	docker build -q -t ringlet:dev .

# A version of a commit, which need not begin with a digit, stands behind the time of it, so that newer packages sort behind older ones.
DEB_EPOCH   ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
DEB_VERSION ?= 0~$(shell git log -1 --format=%cd --date=format:%Y%m%d%H%M%S 2>/dev/null || echo 0).$(VERSION)
.PHONY: deb
deb: build tool-nfpm ## bin/ringlet.deb: binary, units, a user; starts nothing
	DEB_VERSION='$(DEB_VERSION)' SOURCE_DATE_EPOCH='$(DEB_EPOCH)' $(TOOLS)/nfpm package --config deploy/nfpm.yaml --packager deb --target bin/ringlet.deb

# What is on real systems skips aloud where they are not, and needs root.
E2E = cd checks && RINGLET_E2E=$(1) go test -count=1 -v -timeout 30m -run $(2) ./e2e
.PHONY: e2e-k8s
e2e-k8s: build ## a run and its disturbances on the cluster of KUBECONFIG (k8s/README.md)
	$(call E2E,k8s,TestKubernetes)

.PHONY: e2e-baremetal
e2e-baremetal: deb ## the package on two hosts under systemd, and a run there; needs root and systemd-nspawn
	$(call E2E,baremetal,TestBareMetal)

.PHONY: e2e-docker
e2e-docker: build ## the compose file: two networks, four nodes, one paused, then killed; needs root and dockerd
	$(call E2E,docker,TestDocker)

.PHONY: clean
clean: ## remove what was built; the tools in .tools stay
	rm -rf bin coverage.out
	find . -path ./.git -prune -o -path ./.tools -prune -o \( -name '*.test' -o -name '*.prof' \) -type f -exec rm -f {} +

.PHONY: tool-golangci-lint tool-govulncheck tool-proto tool-nfpm
tool-golangci-lint:
	$(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_VERSION))
tool-govulncheck:
	$(call tool,govulncheck,golang.org/x/vuln/cmd/govulncheck,$(GOVULNCHECK_VERSION))
tool-proto:
	$(call tool,buf,github.com/bufbuild/buf/cmd/buf,$(BUF_VERSION))
	$(call tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go,$(PROTOC_GEN_GO))
	$(call tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC))
	$(call tool,protoc-gen-grpc-gateway,github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway,$(GRPC_GATEWAY))
	$(call tool,protoc-gen-openapiv2,github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2,$(GRPC_GATEWAY))
tool-nfpm:
	$(call tool,nfpm,github.com/goreleaser/nfpm/v2/cmd/nfpm,$(NFPM_VERSION))
