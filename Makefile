# Every target is one command a person would type; nothing clever.
GO ?= go
# One way of building for all but race, so that every package is compiled once.
export CGO_ENABLED = 0
export GOFLAGS := $(GOFLAGS) -trimpath

.PHONY: build image demo demo-container example-llamacpp conformance compare-executors soak-executors test race lint fuzz bench bench-trace bench-client bench-client-folder soak cover golden clean

# tinyserve is what the examples measure: a file that lies about in the checkout
# does not make it another program.
build: ## the binary and the example server, static
	$(GO) build -o bin/ ./cmd/sotabuild
	$(GO) build -buildvcs=false -o bin/ ./examples/tinyserve

demo: build ## the main job: two configurations of tinyserve, benchmarked and ranked
	bin/sotabuild -C examples/quickstart apply

image: build ## tinyserve in an image of its own, without a base, a network or a daemon
	bin/sotabuild image build --out bin/tinyserve.tar --tag tinyserve:example --file /usr/local/bin/tinyserve=bin/tinyserve

# EXECUTOR=oci runs it without a daemon. The store is one of its own, because the
# keys are those of make demo: in one store there would be nothing to do.
EXECUTOR ?= docker

demo-container: image ## the same campaign in containers
	bin/sotabuild -C examples/quickstart --store examples/quickstart/.sotabuild-$(EXECUTOR) \
		--var image=docker-archive:../../bin/tinyserve.tar apply --executor $(EXECUTOR)

example-llamacpp: image ## a real llama-server against tinyserve
	examples/llamacpp/prepare.sh
	examples/llamacpp/image.sh
	bin/sotabuild -C examples/llamacpp apply

# On a machine with nothing else to do, after make example-llamacpp; EXAMPLE is
# quickstart or llamacpp, for one of them. A round of both takes about two
# minutes. Rounds are added to those in RUNS, and all of them are judged.
REPEATS ?= 10
EXAMPLE ?= .
RUNS ?= $(CURDIR)/bin/executors.jsonl

compare-executors: ## the examples by local, docker, slurm and local again in turns; writes their throughputs into docs/executors.md
	@mkdir -p bin
	env="$$(.ci/start-docker start && .ci/start-slurm start)" && eval "$$env" && \
	SOTABUILD_REPEATS=$(REPEATS) SOTABUILD_RUNS=$(RUNS) SOTABUILD_UPDATE=1 $(GO) test -v -count=1 -timeout 60m -run 'TestResultsByExecutor/$(EXAMPLE)' ./conformance

test: build ## go vet and every test but those of make conformance
	$(GO) vet ./...
	$(GO) test -timeout 20m $$($(GO) list ./... | grep -v /conformance/executor$$)

# A test's cache knows nothing of daemons: the suite always runs. Its order is
# that of the fixtures, so -parallel is about waiting, not about processors.
conformance: ## one suite over every executor, with the daemons that it needs; prints cases × executors
	@mkdir -p bin
	env="$$(.ci/start-docker start && .ci/start-slurm start)" && eval "$$env" && \
	SOTABUILD_TABLE=$(CURDIR)/bin/conformance.md $(GO) test -count=1 -parallel 8 -timeout 15m ./conformance/executor || \
	{ cat bin/conformance.md; exit 1; }
	@cat bin/conformance.md

soak-executors: ## kill 200 engines in the middle of a start, shared among the executors that are here
	SOTABUILD_SOAK=$${SOTABUILD_SOAK:-200} $(GO) test -v -count=1 -timeout 30m -run TestEnginesKilled ./conformance/executor

# Slurm's real jobs are programs of the test, and with the detector in them they
# end later than Slurm's last word: of that package the tests against a fake Slurm.
race: build ## the race detector where goroutines share state
	CGO_ENABLED=1 $(GO) test -race ./lang/... ./engine/... $$($(GO) list ./executors/... | grep -v /executors/slurm$$) ./stdlib/bench/...
	CGO_ENABLED=1 $(GO) test -race -run 'Forgotten|Slurms?Word|NoEnd|RecordComesLate|TermFromSlurm|ControllerAway|FailedTooLate|OneQuestion' ./executors/slurm

lint: ## gofmt, go vet, staticcheck (pinned in tools.mod)
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...

bench-client: ## this load generator beside a bare epoll reader and Python ones (Debian: python3-aiohttp python3-uvloop python3-httpx)
	$(GO) run ./stdlib/bench/clients

# On another machine, with its Python: ./clients -interpreter python3 -python python
PYTHON ?= 3.12

bench-client-folder: ## bin/bench-client: the same for a machine without Debian's packages, for its version of Python
	$(GO) build -o bin/bench-client/clients ./stdlib/bench/clients
	python3 -m pip install --quiet --upgrade --no-compile --only-binary=:all: --implementation cp --python-version $(PYTHON) \
		--target bin/bench-client/python/$(PYTHON) -r stdlib/bench/clients/requirements.txt

# As many targets at once as there are processors, one worker each; a longer
# time finds more: make fuzz FUZZTIME=20m FUZZ="$(FUZZ) $(FUZZ_MORE)"
FUZZTIME ?= 20s
FUZZ = lang:FuzzLoad lang:FuzzFormat lang:FuzzPredicate stdlib/cookbook:FuzzConvert stdlib/bench/wire:FuzzAnswer \
	stdlib/bench/wire:FuzzScanner stdlib/imports:FuzzRead stdlib/trace/read:FuzzRead
FUZZ_MORE = lang:FuzzAt stdlib/help:FuzzParse engine/cache/journal:FuzzScan engine/key:FuzzParseManifest stdlib/bench/wire:FuzzSSE \
	stdlib/bench/scrape:FuzzParse stdlib/ncu/page:FuzzRead engine/cache:FuzzRecord engine/key:FuzzTextRoundTrip \
	engine/key/statcache:FuzzDecode engine/compile:FuzzThaw stdlib/bench/wire:FuzzScan stdlib/trace:FuzzCommands stdlib/trace/kernel:FuzzParse \
	stdlib/bench/http1:FuzzMessage stdlib/trace/scan:FuzzScan stdlib/trace/scan:FuzzNanoseconds stdlib/ncu/diagnosis:FuzzOf examples/tinyserve:FuzzParse \
	examples/tinyserve/internal/vocab:FuzzStreamEqualsDecode executors/image:FuzzLayer executors/image:FuzzArchive

fuzz: ## fuzz targets, from the committed corpora
	@printf '%s $(FUZZTIME)\n' $(FUZZ) | tr : ' ' | GO="$(GO)" xargs -P $$(nproc) -L 1 .ci/fuzz

bench-trace: ## the trace reader's speed on the largest recorded trace, beside upstream's
	$(GO) run ./stdlib/trace/internal/speed

golden: build ## rewrite expected outputs, then look at the difference
	SOTABUILD_UPDATE=1 $(GO) test ./...
	git diff --stat

bench: ## the engine beside ninja (ninja in PATH); PART=noop, keys, files, task or campaign is one part of it
	$(GO) build -o bin/ ./cmd/sotabuild ./conformance/benchengine
	bin/benchengine $(PART)

# How often each fault is played, and which chance is drawn: a failure can be
# run again. docs/soak.md says what 500 came to; SOAK=3 is a minute of it. Tests
# that play their fault once, and take long, are those of make test.
SOAK ?= 500
SEED ?= 0
SOAKED = Kill|Full|ReadOnly|Torn|Flip|Dies|Damage|Writer|Lock|Deleted|Clock|Network|Edits|CompiledForm|Agrees|TwoApplies

soak: ## kill -9 at random points, full and read-only disks, network disks, torn journals, clocks, edits against a reference
	SOTABUILD_SOAK=$(SOAK) SOTABUILD_SEED=$(SEED) $(GO) test -count 1 -timeout 12h ./engine/cache/... ./engine/sched/... ./engine/plan ./stdlib/campaign/... ./conformance -run '$(SOAKED)' -skip 'BesideAContainer|StoreDeleted'

COVER ?= $(CURDIR)/bin/cover
ENGINE = github.com/sotabuild/sotabuild/engine/...

cover: ## what the tests reach of the engine: its own and the scripts of whole programs, merged
	rm -rf $(COVER) && mkdir -p $(COVER)/own $(COVER)/whole
	$(GO) test -count 1 -cover -coverpkg=./engine/... ./engine/... ./stdlib/campaign/... -args -test.gocoverdir=$(COVER)/own >/dev/null
	SOTABUILD_COVERDIR=$(COVER)/whole $(GO) test -count 1 ./cmd/sotabuild -run 'TestScript/(apply|archive|cache|graph|plan|store)'
	$(GO) tool covdata percent -pkg=$(ENGINE) -i=$(COVER)/own,$(COVER)/whole
	$(GO) tool covdata textfmt -pkg=$(ENGINE) -i=$(COVER)/own,$(COVER)/whole -o $(COVER)/profile
	$(GO) tool cover -func $(COVER)/profile | tail -n 1

clean: ## remove what make built; results stay
	rm -rf bin
