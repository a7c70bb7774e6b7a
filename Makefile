# Every target is one command a person would type; nothing clever.
GO ?= go
STATIC = CGO_ENABLED=0 $(GO) build -trimpath

.PHONY: build demo example-llamacpp test race lint golden fuzz soak bench docs clean

build: ## the binary and the example server, static
	$(STATIC) -o bin/ ./cmd/sotabuild ./examples/tinyserve

demo: build ## the main job: two configurations of tinyserve, benchmarked and ranked
	bin/sotabuild -C examples/quickstart apply

example-llamacpp: build ## a real llama-server against tinyserve
	examples/llamacpp/prepare.sh
	bin/sotabuild -C examples/llamacpp apply

test: build ## everything that CI runs, but for the race detector
	$(GO) vet ./...
	$(GO) test ./...

race: build ## the race detector where goroutines share state
	CGO_ENABLED=1 $(GO) test -race ./lang/... ./engine/... ./executors/... ./stdlib/bench/...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools.mod staticcheck ./...

golden: build ## rewrite expected outputs, then look at the difference
	SOTABUILD_UPDATE=1 $(GO) test ./...
	git diff --stat

bench: ## the engine beside ninja; needs ninja in PATH
	$(STATIC) -o bin/ ./conformance/benchengine
	bin/benchengine

clean:
	rm -rf bin
