# nccl-tuner-go. `make help` lists what there is.

# For another processor: make GOARCH=arm64 CC=aarch64-linux-gnu-gcc
ifneq ($(GOARCH),)
CROSS := $(filter-out $(shell go env GOHOSTARCH),$(GOARCH))
ifeq ($(if $(CROSS),$(origin CC)),default)
$(error GOARCH=$(CROSS) needs a C compiler for it, such as CC=aarch64-linux-gnu-gcc for arm64)
endif
endif
# What is built for one processor is not taken for another's.
BUILD   ?= build$(CROSS:%=/%)
PREFIX  ?= /usr/local
# A comma-separated list for -fsanitize=, for the C side of everything built.
SANITIZE ?=
# Extra flags for the Go linker.
GO_LDFLAGS ?=

SO      := $(BUILD)/libnccl-tuner-go.so
SO_ETCD := $(BUILD)/libnccl-tuner-go-etcd.so
TUNEFIT := $(BUILD)/tunefit
TUNEFIT_ETCD := $(BUILD)/tunefit-etcd
MANUAL  := $(BUILD)/manual
EMPTY   := $(BUILD)/libnccl-tuner-empty.so
LINEAR  := $(BUILD)/libnccl-tuner-linear.so
BENCH   := $(BUILD)/bench
SCENARIOS := $(BUILD)/scenarios
RANK    := $(BUILD)/rank
TRAINER := $(BUILD)/trainer
HAND_OVER := $(BUILD)/hand_over
FAKEPERF := $(BUILD)/nccl-tests-fakeperf
SIGTAB  := $(shell go env GOROOT)/src/runtime/sigtab_linux_generic.go
OVERLAY := $(BUILD)/overlay.json
# The folder with its full path, for programs that run elsewhere. Quote it: the path may have spaces in it.
ABSOLUTE = $(if $(filter /%,$(BUILD)),,$(CURDIR)/)$(BUILD)

CC     ?= gcc
CFLAGS := -std=gnu11 $(if $(SANITIZE),-O1 -fsanitize=$(SANITIZE) -fno-omit-frame-pointer,-O2) -g -Wall -Wextra -Werror
ifneq ($(SANITIZE),)
export CGO_CFLAGS := -g -O1 -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
export CGO_LDFLAGS := -fsanitize=$(SANITIZE)
endif

GO_SOURCES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './build/*') go.mod go.sum Makefile
# What tunefit has in it besides.
EMBEDDED   := configs/topo/dgx-h100.xml policy/lint/rules.txt $(shell find policy/fit/report/assets -type f)
C_SOURCES  := $(shell find tuner internal/abi internal/probe internal/testkit -name '*.[ch]' -o -name '*.map')
HOST       := internal/testkit/host/host.c

# Only what exports.map names leaves the library; all symbols are bound when it is loaded,
# after which its tables of addresses cannot be written; and the Go runtime in it sends
# no signals to preempt goroutines: it is a guest. Go's build ID, which depends on the
# paths of checkout and compiler, gives way to a hash of the content, in tunefit, too. Go reads
# these quotes, so the shell must not: it gets the flags as a variable.
export SO_LDFLAGS := -s -w -X=runtime.godebugDefault=asyncpreemptoff=1 -buildid= -B none \
	'-extldflags="-Wl,--version-script=$(CURDIR)/tuner/plugin/exports.map,-z,relro,-z,now,--build-id=sha1"' $(GO_LDFLAGS)
# The same sources give the same files, whoever owns the checkout.
GO_BUILD := CGO_ENABLED=1 go build -trimpath -buildvcs=false

.PHONY: all
all: $(SO) $(TUNEFIT) ## build the tuner and tunefit into build/

.PHONY: etcd
etcd: $(SO_ETCD) $(TUNEFIT_ETCD) ## build both for ranks that meet in etcd: libnccl-tuner-go-etcd.so, tunefit-etcd

# An etcd client makes the library nearly three times as large, and tunefit half as large again.
$(SO_ETCD) $(TUNEFIT_ETCD): TAGS := -tags etcd
$(SO) $(SO_ETCD): $(GO_SOURCES) $(C_SOURCES) $(OVERLAY)
	@mkdir -p $(BUILD)
	@echo "building $@; the first time, Go compiles its library, too, which takes about a minute"
	@$(GO_BUILD) $(TAGS) -overlay $(OVERLAY) -buildmode=c-shared -ldflags "$$SO_LDFLAGS" -o $@ ./tuner/plugin
	@rm -f $(@:.so=.h)

# One file of the Go runtime is compiled with two changes:
# - Go's threads unblock SIGPROF, SIGCHLD and signal 34 (musl's SIGSYNCCALL, glibc's SIGRTMIN) whatever mask they start
#   with. In the library they leave them blocked: tuner/plugin/signals.h says why.
# - A library starts without garbage collections: init in tuner/plugin/main.go turns them on, and says why.
# If a new Go release changes the file, let sed change what does the same there. TestProfiled and TestManyProcessors
# fail without these changes.
$(OVERLAY): Makefile
	@mkdir -p $(BUILD)
	@sed -E -e '/SIGPROF|SIGCHLD|"signal 34"/s/ \+ _SigUnblock//' -e '$$a func init() { if islibrary { setGCPercent(-1) } }' \
		$(SIGTAB) > $(BUILD)/sigtab.txt
	@[ "$$(diff $(SIGTAB) $(BUILD)/sigtab.txt | grep -c '^>')" = 4 ] || \
		{ echo "$(SIGTAB) is not as expected: this Go release needs another change, see the Makefile above $(OVERLAY)"; exit 1; }
	@echo '{"Replace": {"$(SIGTAB)": "$(BUILD)/sigtab.txt"}}' > $@

# Built like the library, position-independent and with its runtime, tunefit takes half as
# long to compile after it: Go compiles each package for both at once.
$(TUNEFIT) $(TUNEFIT_ETCD): PROGRAM := ./cmd/tunefit
$(MANUAL): PROGRAM := ./cmd/tunefit/internal/manual
$(TUNEFIT) $(TUNEFIT_ETCD) $(MANUAL): $(GO_SOURCES) $(C_SOURCES) $(OVERLAY) $(EMBEDDED)
	@mkdir -p $(BUILD)
	@echo "building $@; the first time, Go compiles its library, too, which takes about a minute"
	@$(GO_BUILD) $(TAGS) -buildmode=pie -overlay $(OVERLAY) -ldflags '-s -w -buildid= -B none -extldflags=-Wl,--build-id=sha1' \
		-o $@ $(PROGRAM)

$(EMPTY) $(LINEAR): $(BUILD)/libnccl-tuner-%.so: internal/testkit/testhost/%.c internal/abi/abi.h
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -shared -fPIC -o $@ $<

$(BENCH): internal/testkit/testhost/bench.c $(C_SOURCES)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -o $@ $< $(HOST) -ldl -lm

$(SCENARIOS): $(wildcard internal/testkit/testhost/scenario*.c) $(C_SOURCES)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -o $@ $(wildcard internal/testkit/testhost/scenario*.c) $(HOST) -ldl -lpthread -lm

$(RANK): internal/testkit/testhost/rank.c $(C_SOURCES)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -o $@ $< $(HOST) -ldl

$(TRAINER): $(wildcard internal/testkit/testhost/trainer*.c) $(C_SOURCES)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -rdynamic -o $@ $(wildcard internal/testkit/testhost/trainer*.c) $(HOST) -ldl -lpthread -lm

$(HAND_OVER): internal/testkit/testhost/hand_over.c $(C_SOURCES)
	@mkdir -p $(BUILD)
	$(CC) $(CFLAGS) -o $@ $< $(addprefix tuner/plugin/,tables.c comm.c context.c cache.c descriptors.c release.c) -lpthread -ldl

.PHONY: fakeperf
fakeperf: $(SO) $(FAKEPERF) ## build simulated nccl-tests, for trying out without a GPU: build/fakeperf/all_reduce_perf ...

$(FAKEPERF): $(GO_SOURCES) $(C_SOURCES) configs/topo/dgx-h100.xml
	@mkdir -p $(BUILD)/fakeperf
	@$(GO_BUILD) -ldflags '-s -w' -o $@ ./internal/testkit/fakeperf
	@for p in all_reduce all_gather reduce_scatter broadcast reduce; do ln -sf ../$(@F) $(BUILD)/fakeperf/$${p}_perf; done

.PHONY: demo
demo: ## fit a policy to published measurements, and edit it under a running job: a minute, no GPU needed
	@[ -e $(SO) ] && [ -e $(TUNEFIT) ] || echo "The first time this builds the library and tunefit, which takes about two minutes."
	@$(MAKE) -s --no-print-directory $(SO) $(TUNEFIT) $(RANK)
	@configs/demo.sh $(BUILD)

# What the tests load and run, in the folder that they are told.
BUILT := $(SO) $(SCENARIOS) $(RANK) $(TRAINER) $(HAND_OVER)
check test: export TEST_BUILD := $(ABSOLUTE)

.PHONY: check
check: vet $(BUILT) ## the inner loop: format, vet, and the short tests of what has changed
	go test -vet=off -short -timeout 3h -p 3 $(QUICK) $(LONG)

.PHONY: vet
vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); \
		[ -z "$$unformatted" ] || { echo "not formatted with gofmt: $$unformatted"; exit 1; }
	go vet ./...

# Packages whose tests take long come last, so that the others' lines show progress; but that of sweeps, the longest, beside others.
LONG  := ./internal/agree ./tuner/plugin
QUICK = $(filter-out $(LONG),$(shell go list -f '.{{slice .ImportPath (len .Module.Path)}}' ./...))
# The packages that consist of goroutines. Of others the tests whose names say so are
# run with the race detector, and the nightly run takes all.
RACE  := ./tuner ./tuner/policyfile ./tuner/telemetry ./internal/safefile ./internal/agree/dirstore ./internal/watch ./topo/detect
# A test that waits in vain ends by itself, and says for what. This limit is for what hangs, however busy the machine is.
TEST  := go test -vet=off -count=1 -timeout 3h

.PHONY: test
test: vet $(BUILT) ## check all, without a GPU: some 7 minutes on two idle cores
	@# Side by side: many tests wait for processes half of their time.
	@$(MAKE) --no-print-directory -j3 test-packages test-plugin test-variants

.PHONY: test-packages
test-packages:
	$(TEST) -p 3 $(QUICK) $(filter-out ./tuner/plugin,$(LONG))

.PHONY: test-plugin
test-plugin:
	$(TEST) ./tuner/plugin

# What is built otherwise, with etcd, without cgo and with the race detector; the rest is alike. Only packages that have
# files of their own for that are looked at.
.PHONY: test-variants
test-variants:
	go vet -tags etcd ./tuner
	$(TEST) -tags etcd -run 'Etcd|BadLive' ./tuner ./cmd/tunefit/internal/livejobs ./cmd/tunefit/internal/doctor
	CGO_ENABLED=0 go vet ./docs ./topo/detect ./tuner ./cmd/tunefit/...
	CGO_ENABLED=0 $(TEST) -short ./topo/detect $(if $(NIGHTLY),./cmd/tunefit/...)
	$(TEST) -race -short $(RACE)
	AGREE_SEEDS=$(if $(NIGHTLY),300,50) $(TEST) -race -short -run 'Parallel|TestSeeds|NodesLose|NodesMisaligned' ./policy ./internal/agree

.PHONY: lint
lint: ## golangci-lint by .golangci.yml if it is installed, else (it takes minutes to build) staticcheck and revive
	@mkdir -p $(BUILD)
	@printf '[rule.exported]\narguments = ["disableChecksOnConstants", "disableStutteringCheck"]\n' > $(BUILD)/revive.toml
	@printf '[rule.line-length-limit]\narguments = [120]\nexclude = ["TEST"]\n' >> $(BUILD)/revive.toml
	@if command -v golangci-lint >/dev/null; then \
		echo golangci-lint run ./...; golangci-lint run ./...; \
	else \
		echo "staticcheck and revive (the first time they are compiled, which takes a minute)"; \
		go run honnef.co/go/tools/cmd/staticcheck@v0.8.1 -tags etcd ./... && \
		go run github.com/mgechev/revive@v1.15.0 -set_exit_status -config $(BUILD)/revive.toml ./...; \
	fi

.PHONY: fuzz
fuzz: ## feed every parser with its worst inputs, which must take no longer than their size, and random ones for FUZZTIME=10s; what fails of these goes to testdata/fuzz
	@failed=; go test -run '^$$' -bench '^BenchmarkWorst' -benchtime 1x -timeout 30m $$(grep -rl --exclude-dir=build \
			--include='*_test.go' '^func BenchmarkWorst' . | xargs -n1 dirname | sort -u) || failed=" BenchmarkWorst"; \
	 for dir in $$(grep -rl --exclude-dir=build --include='*_test.go' '^func Fuzz' . | xargs dirname | sort -u); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z]*' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$target"; \
			grep -q "^func BenchmarkWorst$${target#Fuzz}(" $$dir/*_test.go || failed="$$failed $$dir/BenchmarkWorst$${target#Fuzz} (missing)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),10s) -fuzzminimizetime 10x $$dir || failed="$$failed $$dir/$$target"; \
		done; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: nightly
nightly: verify ## all that takes hours, too: make test, every wrong protocol from seed 1, all of NCCL's answers, soak, seeds
	NIGHTLY=1 $(MAKE) test
	$(TEST) -race ./policy/... ./topo/channels ./internal/agree/...
	$(MAKE) soak seeds

.PHONY: bench
bench: $(BUILT) $(EMPTY) $(LINEAR) $(BENCH) ## measure what README.md and docs/COSTS.md claim, beside PEER=path.so; some 6 minutes
	@uptime
	TEST_BUILD="$(ABSOLUTE)" go run ./internal/testkit/claims -build $(BUILD) $(PEER:%=-peer %)

BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
.PHONY: bench-compare
bench-compare: $(SO) $(EMPTY) $(BENCH) ## compare benchmarks with those of a commit, in turns: REV=HEAD~1 ROUNDS=6
	@internal/testkit/claims/compare.sh "$(REV)" $(or $(ROUNDS),6) "$(ABSOLUTE)" $(BENCH) $(EMPTY)
	cd $(BUILD)/compare && $(BENCHSTAT) before after

.PHONY: soak
soak: $(BUILT) ## hold jobs for SOAKTIME=1h with edits, faults and 100 000 communicators: what they hold must not grow
	TEST_BUILD="$(ABSOLUTE)" SOAKTIME=$(or $(SOAKTIME),1h) $(TEST) -v -timeout 0 -run 'TestSoak$$' ./tuner/plugin

.PHONY: seeds
seeds: ## simulate the agreement of ranks for hours (SEEDS=1000000)
	AGREE_SEEDS=$(or $(SEEDS),1000000) $(TEST) -timeout 0 -run 'TestSeeds$$' ./internal/agree

.PHONY: verify
verify: ## check the models of the ranks' agreement (docs/dev/protocol); needs spin and a C compiler
	@docs/dev/protocol/verify.sh

# The users' pages, and the pictures on them.
PAGES := README.md $(wildcard docs/*.md) docs/measured/allreduce-1x8.svg

# What is installed besides the two programs. docs/share.sh makes it. A command has a page tunefit-COMMAND.1.
SHARE := $(addprefix share/,$(addprefix doc/nccl-tuner-go/,LICENSE $(PAGES)) man/man1/tunefit.1 man/man1/tunefit-*.1 \
	man/man7/libnccl-tuner-go.7 bash-completion/completions/tunefit zsh/site-functions/_tunefit fish/vendor_completions.d/tunefit.fish) \
	$(patsubst configs/%,share/nccl-tuner-go/%,$(shell find configs/recipes configs/policies -type f))

# The program that writes the manual pages and completions. One for another processor cannot run here.
MANUAL_HERE := $(if $(CROSS),build/manual,$(MANUAL))
ifneq ($(CROSS),)
build/manual:
	@$(MAKE) --no-print-directory GOARCH= CC=gcc BUILD=build $@
endif

$(BUILD)/share: $(MANUAL_HERE) docs/share.sh LICENSE $(PAGES) $(shell find configs/recipes configs/policies)
	@docs/share.sh $< $@ $(PAGES)

.PHONY: install
install: all $(BUILD)/share ## install into PREFIX (default /usr/local), safely while jobs run
	@# A running job has the old library mapped: replace the file, never its content.
	install -d -m 755 $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(SO) $(DESTDIR)$(PREFIX)/lib/.libnccl-tuner-go.so.new
	mv -f $(DESTDIR)$(PREFIX)/lib/.libnccl-tuner-go.so.new $(DESTDIR)$(PREFIX)/lib/libnccl-tuner-go.so
	install -m 755 $(TUNEFIT) $(DESTDIR)$(PREFIX)/bin/.tunefit.new
	mv -f $(DESTDIR)$(PREFIX)/bin/.tunefit.new $(DESTDIR)$(PREFIX)/bin/tunefit
	@# Pages, manual pages, completions, recipes, sample policies, the licence.
	@for f in $(addprefix $(BUILD)/,$(SHARE)); do \
		mode=644; [ ! -x $$f ] || mode=755; \
		install -D -m $$mode $$f $(DESTDIR)$(PREFIX)/$${f#$(BUILD)/} || exit 1; \
	done

.PHONY: uninstall
uninstall: ## remove from PREFIX what install put there
	cd $(DESTDIR)$(PREFIX)/ && rm -f lib/libnccl-tuner-go.so bin/tunefit $(SHARE)
	@cd $(DESTDIR)$(PREFIX)/ && for d in share/nccl-tuner-go share/doc/nccl-tuner-go; do \
		[ ! -d $$d ] || find $$d -depth -type d -empty -delete; \
	done

.PHONY: dist
dist: ## build release tarballs for x86-64 and arm64, glibc 2.17 or later, into build/dist (docs/dev/RELEASE.md)
	@.ci/dist

.PHONY: dist-check
dist-check: dist ## build the tarballs again elsewhere and compare; run them on an old glibc
	@.ci/dist-check

.PHONY: packages
packages: ## deb, rpm, Python wheel and OCI image of what make dist left in build/dist, into build/packages
	configs/packaging/build.sh $(wildcard build/dist/root-*)

.PHONY: packages-check
packages-check: packages ## install, use and remove them in clean roots; the first time debootstrap takes minutes
	PACKAGES="$(CURDIR)/build/packages" go test -count=1 -v -timeout 30m ./internal/packaging

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
