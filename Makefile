# Two commands matter: `make demo` does the main job, `make test` passes all tests. Each installs what it
# needs and says so; a second time there is nothing left to install.

CARGO ?= cargo
WEIR := target/release/weir
OUT ?= out

.PHONY: help demo test bench reproduce build fmt clean

help:
	@echo "make demo       steer a real link: real TCP in network namespaces, 75 s for each of three queues (root)"
	@echo "make test       all tests; live ones as root, otherwise they say what they skip"
	@echo "make bench      instructions per packet, forwarding beside DPDK, shaper, delay line, simulator beside ns-2"
	@echo "make reproduce  the paper's figures at 1 Gbit/s and 200 Mbit/s; about an hour (root)"
	@echo "make build      the program, in $(WEIR)"

build:
	@tools/install build
	$(CARGO) build --release -p weir-cli

demo:
ifeq ($(shell uname -s),Linux)
	@tools/install build live
	$(CARGO) build --release -p weir-cli
else
	$(CARGO) build --release -p weir-cli --no-default-features
endif
	@tools/demo $(WEIR) $(OUT)/demo

test:
	@tools/install build live test
	@tools/test

bench:
	@tools/install build live test bench
	$(CARGO) run --release -p weir-bench -- all

reproduce:
	@tools/install build live
	$(CARGO) build --release -p weir-cli
	@tools/reproduce $(WEIR) $(OUT)/reproduce

fmt:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean
	rm -rf $(OUT)
