# Works from a clean clone with Rust, gcc, Python and apt. Nothing is installed outside
# this folder; fetched tools live in .tools/.

.DEFAULT_GOAL := help
.PHONY: help tools run build manual check test fmt deny docs tree main-job quick-tests real-tests sim sim-test chaos chaos-bins soak fuzz quick-fuzz model demo bench bench-http up down status dashboards

# The etcd client is generated from etcd's protocol files when it is compiled.
export PROTOC := $(CURDIR)/.tools/protoc/bin/protoc

# On a CI machine a Cargo.lock that does not fit the manifests is an error.
CARGO_FLAGS := $(if $(CI),--locked)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(PROTOC) ## build and start `gateway dev`, with everything in one process
	cargo run $(CARGO_FLAGS) --release -p holdfast-gateway --bin gateway -- dev

build: $(PROTOC) ## build the commands: target/release/{gateway,shard-map,lockctl,loadgen}
	cargo build $(CARGO_FLAGS) --release -p holdfast-gateway -p shard-map -p holdfast-client -p loadgen

check: tree $(PROTOC) ## the quick tests: tree, format, lints, unit and model tests (no etcd)
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	$(MAKE) --no-print-directory quick-tests

# The tests against real processes come last: what cargo prints about them ends the output.
# The main job waits most of its time, and the simulator has what it leaves of the processors.
test: check deny docs tools quick-fuzz ## everything: check, deny, docs, fuzzing, and the tests against real etcd
	nice -n 19 $(MAKE) --no-print-directory sim-test >target/sim-test.log 2>&1 & sim=$$!; \
	$(MAKE) --no-print-directory main-job || { kill $$sim; exit 1; }; \
	echo 'sim-test:'; wait $$sim || { cat target/sim-test.log; exit 1; }; cat target/sim-test.log
	$(MAKE) --no-print-directory real-tests

SIM = cargo run $(CARGO_FLAGS) -q --profile sim -p holdfast-sim --bin sim --

sim: $(PROTOC) ## simulate SEEDS=1000 runs from FIRST=0 on, or show the run of one SEED=
	$(SIM) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0)) \
	$(if $(FAULTS),--faults $(FAULTS)) $(if $(MUTATION),--mutation $(MUTATION))

sim-test: $(PROTOC) ## the fixed sweep of the simulator, and the hunt for deliberate mistakes
	$(SIM) --seeds 10000
	$(SIM) --hunt

# Members of each cluster. A comma cannot stand in a call of make.
CLUSTERS_DEFAULT = 1,3,1
CHAOS = $(CURDIR)/target/debug/chaos --gateways $(or $(GATEWAYS),3) --clusters $(or $(CLUSTERS),$(CLUSTERS_DEFAULT))

chaos: tools chaos-bins ## break real gateways and etcd at random for DURATION=5m; SEED=, GATEWAYS=, CLUSTERS=, JSON=1
	@$(CHAOS) --duration $(or $(DURATION),5m) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json)

SOAK = $(CURDIR)/target/debug/soak

soak: tools chaos-bins ## clients disconnect and disappear, gateways restart, for DURATION=10m: is anything left? SEED=, JSON=1
	@$(SOAK) --duration $(or $(DURATION),10m) $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json)

fuzz: $(PROTOC) ## libFuzzer looks for bytes that break a reader, SECONDS=60 for each TARGETS='frames map' or all
	scripts/fuzz --seconds $(or $(SECONDS),60) $(TARGETS)

quick-fuzz: $(PROTOC)
	scripts/fuzz --seconds 4

chaos-bins: $(PROTOC)
	@cargo build $(CARGO_FLAGS) -q -p holdfast-gateway -p shard-map -p holdfast-chaos --bins

MODEL = cargo run $(CARGO_FLAGS) -q --profile sim -p holdfast-model --bin model --

model: ## search the large scenes of ownership and of moves, or BOUNDS='--gateways 3 --late-writes 2' of your own
	$(MODEL) $(if $(BOUNDS)$(MUTATION),search $(BOUNDS) $(if $(MUTATION),--mutation $(MUTATION)),scenes)
	$(if $(BOUNDS)$(MUTATION),,$(MODEL) moves --losses 2 --slow-turns 0 --grants 0)
	$(if $(BOUNDS)$(MUTATION),,$(MODEL) moves --losses 0 --slow-turns 1 --grants 2 --turns 2 --all-heard)
	$(if $(BOUNDS)$(MUTATION),,$(MODEL) moves --losses 1 --slow-turns 1 --grants 0 --turns 2)

manual: build ## write man pages and shell completions of the commands to target/manual/
	for command in gateway shard-map lockctl loadgen; do target/release/$$command manual --out target/manual || exit 1; done

up: build ## start the real stack on loopback: three etcd clusters, two gateways, HAProxy, Prometheus
	scripts/fetch-tools etcd-3.5 haproxy prometheus
	scripts/local-stack up

down: ## end what `make up` started; the locks stay in .stack/
	scripts/local-stack down

status: ## what of the local stack runs
	scripts/local-stack status

demo: build ## play why a lock needs a fencing token: a stopped worker, PostgreSQL, a late write
	scripts/fetch-tools postgresql
	scripts/demo

bench: tools ## time the engine and the edge alone, and acquires in batches against one transaction per lock
	cargo bench $(CARGO_FLAGS) -p holdfast-gateway --bench engine --bench edge --bench acquires

bench-http: build tools ## renewals over HTTP beside a bare hyper server; wants two idle cores
	scripts/bench-http

fmt: ## format the Rust code
	cargo fmt --all

tools: ## fetch what tests and the local stack need (etcd, protoc, HAProxy, Prometheus ...) into .tools/ (no root needed)
	scripts/fetch-tools

deny: ## check licences, sources and banned crates (compiles cargo-deny the first time)
	scripts/deny

docs: $(PROTOC) ## build the API documentation; a broken link is an error
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc $(CARGO_FLAGS) --workspace --no-deps --document-private-items

dashboards: ## check dashboards, alerts and runbooks, and the unit tests of the alerts
	scripts/fetch-tools prometheus
	dashboards/check.py
	python3 dashboards/test_check.py

tree: ## check the rules about files that no compiler checks
	scripts/check-tree

quick-tests: $(PROTOC)
	cargo test $(CARGO_FLAGS) --workspace --doc
	targets=$$(scripts/test-targets quick) && \
	cargo test $(CARGO_FLAGS) --workspace --no-fail-fast --lib --bins $$targets
	targets=$$(scripts/test-targets real) && \
	cargo test $(CARGO_FLAGS) --workspace --no-fail-fast $$targets -- model::

# What the README, docs/ and deploy/ show, and the main job in small, with debug builds: an etcd cluster is killed under
# load, then a gateway; a cluster is added and one is drained; of three gateways one is killed, one is stopped for a
# while, all are restarted.
main-job: tools dashboards
	cargo build $(CARGO_FLAGS) --workspace --bins
	scripts/check-readme target/debug
	scripts/check-api --bin target/debug
	scripts/check-fencing
	scripts/demo --bin target/debug
	scripts/check-stack target/debug
	scripts/check-operations target/debug
	scripts/check-deploy target/debug
	scripts/check-watching --bin target/debug
	scripts/main-job --bin target/debug --locks 2000 --ttl 30 --renew-every 5 --duration 30 \
		--fault kill-cluster
	scripts/main-job --bin target/debug --locks 2000 --ttl 30 --renew-every 5 --duration 40 \
		--contend 8 --fault kill-gateway
	scripts/check-rollouts target/debug
	scripts/rollout-run --bin target/debug --locks 1500 --quiet 2 --between 1 --max-moving 32 --churn 20
	scripts/many-gateways --bin target/debug --locks 3000 --ttl 18 --renew-every 5 --duration 40 \
		--contend 4 --fault kill-one
	scripts/many-gateways --bin target/debug --locks 1500 --ttl 60 --renew-every 5 --duration 70 \
		--contend 4 --fault stop-one
	scripts/many-gateways --bin target/debug --locks 1500 --ttl 10 --renew-every 3 --duration 75 \
		--contend 4 --fault roll

real-tests: tools chaos-bins
	$(CHAOS) --duration 60s --seed 1
	targets=$$(scripts/test-targets real) && \
	cargo test $(CARGO_FLAGS) --workspace --no-fail-fast $$targets

$(PROTOC):
	scripts/fetch-tools protoc
