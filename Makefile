# KV Lens. Every tool is pinned and run through Go; `make` alone lists the targets.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

PREFIX ?=
DOMAIN ?= localhost
DIST   ?= web/dist
TEACH  ?= .tools/teach
SMOLLM := web/models/smollm2-135m-instruct/manifest.json
JS     := GOOS=js GOARCH=wasm CGO_ENABLED=0
# The software Vulkan driver, so that level 1 is the same on every machine.
LAVAPIPE ?= /usr/share/vulkan/icd.d/lvp_icd.$(shell uname -m).json

# For bench-gpu: the speed of the GPU's memory in GB/s, and SmolLM2's tokens: prompt, answer, and a longer context.
BANDWIDTH ?= 0
PROMPT    ?= 512
DECODE    ?= 128
CONTEXT   ?= 2048

.DEFAULT_GOAL := help
.PHONY: help run site serve model test test-go test-gpu test-web perplexity recipes mutate e2e check bench bench-ui bench-gpu size train clean

help:                ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | awk -F'\t' '{printf "%-10s %s\n", $$1, $$2}'

run: site serve      ## build the site and serve it on this machine

site:                ## build the site into web/dist for PREFIX=/name (default: the root)
	go run ./web/gen -out $(DIST) -prefix "$(PREFIX)" -domain "$(DOMAIN)"

serve:               ## serve what `make site` built
	go run ./web/serve -dir $(DIST) -prefix "$(PREFIX)"

model: $(SMOLLM)     ## fetch SmolLM2-135M-Instruct (98 MB, Apache-2.0) and split it into parts

$(SMOLLM):
	go run ./web/lab/getmodel -dir $(@D)

test:                ## run all four levels, after setting up what is missing where that can be done
	@.ci/setup
	@$(MAKE) --no-print-directory model || { echo "SKIPPED: everything on SmolLM2, whose file could not be fetched"; test "$$CI" != true; }
	@.ci/level 0 "go" $(MAKE) --no-print-directory test-go
	@.ci/level 1 "go gcc $(LAVAPIPE)" $(MAKE) --no-print-directory test-gpu
	@.ci/level 2 "go chromium clang wasm-ld wasm-objdump" $(MAKE) --no-print-directory test-web
	@.ci/level 3 "go chromium $(SMOLLM)" $(MAKE) --no-print-directory e2e

test-go:             ## level 0: everything that needs neither a browser nor a GPU
	CGO_ENABLED=0 go test -timeout 40m ./...

test-gpu:            ## level 1: device, kernels and models on WebGPU against reference and oracle, on a software driver
	KVLENS_GPU=1 CGO_ENABLED=1 VK_ICD_FILENAMES=$(LAVAPIPE) XDG_RUNTIME_DIR=$${XDG_RUNTIME_DIR:-/tmp} \
		go test -count=1 -timeout 40m ./wasm/gpu/... ./wasm/kernel/... ./wasm/llama ./wasm/engine/choose ./web/lab

test-web:            ## level 2: the CPU path and WebGPU against the reference, in a Chromium worker
	go run ./web/e2e/worker
	go run ./web/e2e/worker -nosimd ./wasm/cpu
	go run ./web/e2e/worker -webgpu -timeout 20m ./wasm/gpu ./wasm/kernel ./wasm/engine/choose
	go run ./web/e2e/worker -webgpu -run 'Counts|Tiny|Teach|Forced|Generate|Sessions|Turns|Cancelled|Ledger' ./wasm/llama

perplexity: model    ## what streams cost on 1,280 tokens of prose, in minutes; the short form is in level 0
	KVLENS_LONG=1 CGO_ENABLED=0 go test -count=1 -timeout 60m -v -run TestStreamingPerplexity ./wasm/llama

recipes:             ## what WebGPU keeps of stories and in answers under every recipe, against the reference, in minutes
	KVLENS_LONG=1 KVLENS_GPU=1 CGO_ENABLED=1 VK_ICD_FILENAMES=$(LAVAPIPE) XDG_RUNTIME_DIR=$${XDG_RUNTIME_DIR:-/tmp} \
		go test -count=1 -timeout 60m -v -run 'TestRecipesOnStories|TestRecipesInAnswers' ./web/lab

mutate:              ## change the shaders, token by token, and see that the kernel tests notice
	KVLENS_GPU=1 CGO_ENABLED=1 VK_ICD_FILENAMES=$(LAVAPIPE) go run ./web/lab/mutate

e2e: model           ## level 3: the built site in Chromium
	KVLENS_E2E=1 go test -count=1 -timeout 30m -v ./web/e2e

check:               ## formatting, vet, staticcheck and builds for both platforms, tidy modules, clean tree
	@unformatted=$$(go run $(GOFUMPT) -l .); test -z "$$unformatted" || { echo "not formatted by gofumpt:"; echo "$$unformatted"; exit 1; }
	go build ./...
	$(JS) go build ./...
	go vet ./...
	$(JS) go vet ./...
	go run $(STATICCHECK) ./...
	go run -exec "env $(JS)" $(STATICCHECK) ./...
	go test ./web/lab/rules
	go mod tidy -diff
	@test -z "$$(git status --porcelain)" || { echo "the tree is not clean:"; git status --short; exit 1; }

bench-gpu: model     ## print a GPU's speeds, natively, and bytes/s against BANDWIDTH (GB/s, 0 for unknown)
	CGO_ENABLED=1 go run ./web/lab bench web/static/models/teach.json -backend gpu -prompt 128 -decode 128 -context 512 -bandwidth "$(BANDWIDTH)"
	CGO_ENABLED=1 go run ./web/lab bench $(SMOLLM) -backend gpu -prompt "$(PROMPT)" -decode "$(DECODE)" -context "$(CONTEXT)" -bandwidth "$(BANDWIDTH)"

bench: model         ## print speeds, natively and in Chromium, and against wllama where KVLENS_PEER_WLLAMA says where it is
	CGO_ENABLED=1 VK_ICD_FILENAMES=$(LAVAPIPE) XDG_RUNTIME_DIR=$${XDG_RUNTIME_DIR:-/tmp} go run ./web/e2e/bench

bench-ui: model      ## print what the page's own thread does for each token, with the heads watched, on two screens
	go run ./web/e2e/benchui built-in smollm2-135m-instruct

size:                ## fail when a program is larger than its budget (2.5 and 1.8 MB with gzip)
	go run ./web/gen -out $(DIST) -prefix "$(PREFIX)" -budget

train:               ## train the built-in model on the CPU (hours; stop and go on as you like), measure and export it in TEACH
	test -x $(TEACH)/venv/bin/python || python3 -m venv $(TEACH)/venv
	$(TEACH)/venv/bin/pip install -q -r web/teach/requirements.txt
	go build -o $(TEACH)/stories ./web/lab/stories
	$(TEACH)/venv/bin/python -B web/teach/train.py --stories $(TEACH)/stories --out $(TEACH)/run
	$(TEACH)/venv/bin/python -B web/teach/export.py --run $(TEACH)/run --out $(TEACH)/model
	go run ./web/lab exam $(TEACH)/model/teach.json -backend cpu -lengths 128,512,1024 -n 24 -heads > $(TEACH)/exam.json
	$(TEACH)/venv/bin/python -B web/teach/evaluate.py --stories $(TEACH)/stories --run $(TEACH)/run
	$(TEACH)/venv/bin/python -B web/teach/vectors.py --run $(TEACH)/run --model $(TEACH)/model/teach-q8_0.gguf > $(TEACH)/vectors.json
	$(TEACH)/venv/bin/python -B web/teach/card.py --run $(TEACH)/run > $(TEACH)/card.md

clean:               ## remove what the other targets made, except fetched models
	rm -rf $(DIST) $(DIST).new web/e2e/out .tools
