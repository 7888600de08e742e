# Two commands matter: `make demo` does the main job, `make test` passes all tests. Each installs what it
# needs and says so; a second time there is nothing left to install.

CARGO ?= cargo
WEIR := target/release/weir
QUICK := target/debug/weir
OUT ?= out

.PHONY: help outside msrv demo package page test fuzz faultsim bench metrics reproduce realism witness steer-witness steer-cost in-kernel interop embed libweir build quick fmt clean

help:
	@echo "make demo       steer a real link: real TCP in network namespaces, 54 s for each of four queues (root); else"
	@echo "                the same in the simulator"
	@echo "make test       all tests; live ones as root, otherwise they say what they skip"
	@echo "make fuzz       every algorithm, discipline and parser against a fuzzer; SECONDS=60 for each"
	@echo "make faultsim   packet loop and user plane under simulated faults; SEEDS=100000, or HOURS=8; Ctrl-C ends it"
	@echo "make bench      instructions per packet, forwarding beside DPDK, shaper, delay line, simulator beside ns-2"
	@echo "make metrics    metrics and alert rules before Debian's Prometheus, and 10 000 live changes under load (root)"
	@echo "make package    the Debian package, in $(OUT)/package; tried on a bare Debian 12 (root): install, upgrade, purge"
	@echo "make page       the page of a running link in Chromium, with pictures in $(OUT)/page"
	@echo "make reproduce  every paper in every arm at full length, and a page of all results; more than a day (root)"
	@echo "make witness    records what the queues of Debian's kernel do, in QEMU, five times each; about an hour"
	@echo "make steer-witness  weir steer on the queues of Debian's kernel, in QEMU, with real TCP; about half an hour"
	@echo "make steer-cost the processor's time of weir steer, for one queue and for 10 000; a minute (root)"
	@echo "make in-kernel  the virtual queue in the kernel at 10 Gbit/s: 2 to 36 real flows, offloads on; six minutes (root)"
	@echo "make realism    the simulator beside real TCP, 45 points at 1 Gbit/s; about an hour (root)"
	@echo "make interop    weir upf beside other people's PFCP: go-pfcp and scapy as session management, tshark as witness"
	@echo "make libweir    the C library, into PREFIX=/usr/local"
	@echo "make embed      the C library, the DPDK switch, the Python package and the queue disc for ns-3, built, installed into"
	@echo "                $(OUT)/embed and tried"
	@echo "make outside    an algorithm of a crate of its own, examples/outside, in every verb; changed code gives changed results"
	@echo "make build      the program, in $(WEIR)"
	@echo "make quick      the simulator alone, in $(QUICK): seconds after a change; no root, no clang, no live links"

build:
	@tools/install build
	$(CARGO) build --release -p weir-cli

# For those who write an algorithm: little optimised, and without what needs Linux and clang.
quick:
	$(CARGO) build -p weir-cli --no-default-features

# The live link takes Linux and root. Elsewhere the simulator does the job, which needs neither them nor clang; where
# clang is there, the whole program is built all the same.
ifeq ($(shell uname -s)-$(shell id -u),Linux-0)
demo:
	@tools/install build live
	$(CARGO) build --release -p weir-cli
	@tools/demo $(WEIR) $(OUT)/demo
else
demo:
	@if [ "$$(uname -s)" = Linux ] && tools/install build; \
	then set -x; $(CARGO) build --release -p weir-cli; \
	else set -x; $(CARGO) build --release -p weir-cli --no-default-features; fi
	@tools/demo $(WEIR) $(OUT)/demo
endif

# Without root nothing live is tried, so that what it takes may be missing; what is left out is said at the end.
test:
	@tools/install build
	@tools/install live test || [ "$$(id -u)" != 0 ]
	@tools/test

SECONDS ?= 60
fuzz:
	@tools/install build
	@tools/fuzz $(SECONDS)

metrics:
	@tools/install build live metrics
	$(CARGO) test -p weir-operate
	WEIR_CHANGES=10000 $(CARGO) test -p weir-cli --test live control::

# The package is tried where it could not do harm: in a folder with a Debian of its own.
package:
	@tools/install build package
	@tools/package $(OUT)/package
	@if [ "$$(id -u)" = 0 ]; then tools/package-test $(OUT)/package/weir_*.deb $(OUT)/package/test; \
	else echo "not root: the package is not tried on a bare Debian"; fi

page:
	@tools/install build live browser
	@mkdir -p $(OUT)/page
	WEIR_PICTURES=$(abspath $(OUT)/page) $(CARGO) test -p weir-operate --test page

# A failing seed is told with its replay: `target/release/faultsim --seed N`.
SEEDS ?= 100000
JOBS ?= $(shell nproc)
faultsim:
	@tools/install build
	$(CARGO) build --release -p weir-faultsim
	target/release/faultsim --jobs $(JOBS) $(if $(HOURS),--hours $(HOURS),--seeds $(SEEDS))

bench:
	@tools/install build live test bench
	$(CARGO) run --release -p weir-bench -- all

# Without root nothing live is run, and ns-2 may be missing; tools/reproduce says what is left out.
reproduce:
	@tools/install build
	@tools/install live reproduce || [ "$$(id -u)" != 0 ]
	WEIR_COMMIT="$$(git describe --always --dirty=', changed' --exclude='*')" $(CARGO) build --release -p weir-cli
	@tools/reproduce $(WEIR) $(OUT)/reproduce

# The record is kept in the repository, so this is needed only for another kernel or another matrix.
witness:
	@tools/install build live witness
	@tools/kernel-witness

steer-witness:
	@tools/install build live witness
	$(CARGO) build --release -p weir-cli
	@tools/steer-witness

steer-cost:
	@tools/install build live
	$(CARGO) build --release -p weir-cli
	@tools/steer-cost

in-kernel:
	@tools/install build live
	$(CARGO) build --release -p weir-cli
	@tools/in-kernel --beside

interop:
	@tools/install build interop
	$(CARGO) build --release -p weir-cli
	@tools/interop $(WEIR)

# The C library for other programs. DESTDIR is put before the prefix.
PREFIX ?= /usr/local
libweir:
	@tools/libweir $(PREFIX)

# What embeds Weir, as a user of it would build it.
embed:
	@tools/install build test embed
	@tools/embed $(OUT)/embed

# An algorithm of another crate: built, tried, changed, built again.
outside:
	@tools/outside $(OUT)/outside

# Both are run whether or not the first holds.
realism:
	@tools/install build live
	$(CARGO) build --release -p weir-cli
	@rc=0; for set in realism realism_steered; do \
	$(WEIR) compare data/scenarios/$$set.toml --out $(OUT)/$$set || rc=1; done; exit $$rc

# The oldest Rust that builds everything, as Cargo.toml declares it.
msrv:
	@tools/install build
	rustup toolchain install --profile minimal $$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	$(CARGO) +$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) check --workspace --all-targets

fmt:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean
	rm -rf $(OUT)
