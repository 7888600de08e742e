#!/usr/bin/env python3
"""DPDK testpmd as a bump in the wire between two interfaces, for a bounded time.

Run inside the network namespace that holds the two interfaces:

    ip netns exec <name> python3 testpmd.py <a> <b> --seconds 5 --core 1

Two lines of JSON are written to standard output: one when packets are being
forwarded ("event": "ready") and one at the end ("event": "result"). The end is
the first of: the duration, standard input reaching its end (with --follow-stdin),
SIGTERM or SIGINT. testpmd is asked to stop by the enter key it waits for, then by
signals to its own process id; what it leaves on the interfaces is taken off.
"""

import argparse
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

# What was fastest for TCP; see README.md for the other choices and what they cost.
DEFAULTS = {"busy_budget": 256, "burst": 256, "descriptors": 0, "mbufs": 16384, "mbuf_size": 2176}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("a")
    p.add_argument("b")
    p.add_argument("--seconds", type=float, required=True, help="how long to forward, at most")
    p.add_argument("--core", type=int, default=1, help="core of the forwarding thread")
    p.add_argument("--main-core", type=int, default=0, help="core of the thread that only waits")
    p.add_argument("--follow-stdin", action="store_true", help="also stop at the end of standard input")
    p.add_argument("--busy-budget", type=int, default=DEFAULTS["busy_budget"],
                   help="packets per busy poll of the driver; 0 turns busy polling off")
    p.add_argument("--burst", type=int, default=DEFAULTS["burst"])
    p.add_argument("--defer-interrupts", type=int, default=0,
                   help="napi_defer_hard_irqs of both interfaces during the run (with busy polling)")
    p.add_argument("--flush-timeout", type=int, default=200000,
                   help="gro_flush_timeout in ns, with --defer-interrupts")
    p.add_argument("--descriptors", type=int, default=DEFAULTS["descriptors"],
                   help="size of the rings; 0 leaves the driver's own (2048)")
    p.add_argument("--mbufs", type=int, default=DEFAULTS["mbufs"])
    p.add_argument("--mbuf-size", type=int, default=DEFAULTS["mbuf_size"])
    p.add_argument("--hugepages", action="store_true", help="use reserved 2 MiB pages (needs about 64 free)")
    p.add_argument("--shared-umem", action="store_true", help="one buffer area for both ports")
    p.add_argument("--force-copy", action="store_true")
    p.add_argument("--program", default="dpdk-testpmd")
    p.add_argument("--log", help="file that receives what testpmd prints")
    return p.parse_args()


def command(o):
    common = ",start_queue=0,queue_count=1,busy_budget=%d" % o.busy_budget
    common += ",shared_umem=1" if o.shared_umem else ""
    common += ",force_copy=1" if o.force_copy else ""
    cores = sorted({o.core, o.main_core})
    eal = ["-l", ",".join(map(str, cores)), "--main-lcore", str(o.main_core), "--no-pci", "--no-telemetry"]
    # Without huge pages the memory is one block, so it must hold all buffers.
    megabytes = 64 + o.mbufs * (o.mbuf_size + 256) // (1 << 20)
    eal += ["--in-memory"] if o.hugepages else ["--no-huge", "--no-shconf", "-m", str(megabytes)]
    eal += ["--vdev", "net_af_xdp0,iface=" + o.a + common, "--vdev", "net_af_xdp1,iface=" + o.b + common]
    app = ["--forward-mode=io", "--nb-cores=1", "--burst=%d" % o.burst,
           "--total-num-mbufs=%d" % o.mbufs, "--mbuf-size=%d" % o.mbuf_size]
    if o.descriptors:
        app += ["--rxd=%d" % o.descriptors, "--txd=%d" % o.descriptors]
    # Its output is a pipe here, which would otherwise reach this script only at the end.
    return ["stdbuf", "-oL", o.program] + eal + ["--"] + app


def link(name):
    out = subprocess.run(["ip", "-j", "-d", "link", "show", "dev", name], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit("testpmd.py: " + out.stderr.strip())
    return json.loads(out.stdout)[0]


def xdp_mode(name):
    """How the program on an interface runs: None, "native", "generic" or "offload"."""
    xdp = link(name).get("xdp")
    if not xdp:
        return None
    return {1: "native", 2: "generic", 3: "offload"}.get(xdp.get("mode"), str(xdp.get("mode")))


def defer(name, count, nanoseconds):
    """Set after how long the kernel polls an interface itself; gives back what was set before."""
    before = []
    for attribute, value in (("napi_defer_hard_irqs", count), ("gro_flush_timeout", nanoseconds)):
        with open("/sys/class/net/%s/%s" % (name, attribute), "r+") as f:
            before.append(int(f.read()))
            f.seek(0)
            f.write(str(value))
    return before


def thread_seconds(pid):
    """User and system time of every thread of testpmd, by thread name."""
    ticks, times = os.sysconf("SC_CLK_TCK"), {}
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, task)) as f:
                text = f.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        fields = text[text.rindex(")") + 2:].split()
        times[name] = {"user": int(fields[11]) / ticks, "system": int(fields[12]) / ticks}
    return times


def counters(text):
    """The last statistics testpmd printed: both ports and their sum."""
    line = r"RX-packets: (\d+)\s+RX-dropped: (\d+)\s+RX-total: \d+\s+TX-packets: (\d+)\s+TX-dropped: (\d+)"
    found = {}
    for title, key in (("Forward statistics for port 0", "a"), ("Forward statistics for port 1", "b"),
                       ("Accumulated forward statistics for all ports", "all")):
        hits = re.findall(title + r"\s*[-+]+\s+" + line, text)
        if not hits:
            return None
        rx, rx_dropped, tx, tx_dropped = map(int, hits[-1])
        found[key] = {"received": rx, "receive_dropped": rx_dropped, "sent": tx, "send_dropped": tx_dropped}
    return found


def stop(process):
    """Enter, then signals, each with some time to act on it."""
    for ask in (lambda: process.stdin.close(), lambda: process.send_signal(signal.SIGINT),
                lambda: process.send_signal(signal.SIGTERM), lambda: process.kill()):
        try:
            ask()
        except OSError:
            pass
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


def main():
    o = arguments()
    if shutil.which(o.program) is None:
        sys.exit("testpmd.py: no %s; on Debian it is in the package dpdk-dev" % o.program)
    if not 0 < o.seconds <= 600 or o.core == o.main_core:
        sys.exit("testpmd.py: need 0 < seconds <= 600 and two different cores")
    before = {name: "PROMISC" in link(name)["flags"] for name in (o.a, o.b)}

    deferred = {}
    if o.defer_interrupts:
        deferred = {n: defer(n, o.defer_interrupts, o.flush_timeout) for n in (o.a, o.b)}

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    # Should this script be killed, testpmd is killed too.
    libc = ctypes.CDLL(None, use_errno=True)
    process = subprocess.Popen(command(o), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))
    lines, ready = [], threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line)
            if "Press enter to exit" in line:
                ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    result = {"event": "result", "command": command(o)}
    try:
        deadline = time.monotonic() + 30
        while not ready.wait(0.05) and process.poll() is None and not ended.is_set():
            if time.monotonic() > deadline:
                break
        if ready.is_set() and process.poll() is None:
            result["xdp"] = {name: xdp_mode(name) for name in (o.a, o.b)}
            print(json.dumps({"event": "ready", "pid": process.pid, "xdp": result["xdp"]}), flush=True)
            began = time.monotonic()
            while time.monotonic() - began < o.seconds and process.poll() is None and not ended.is_set():
                if o.follow_stdin and select.select([sys.stdin], [], [], 0.05)[0]:
                    if not os.read(sys.stdin.fileno(), 4096):
                        break
                else:
                    ended.wait(0.05)
            result["seconds"] = round(time.monotonic() - began, 3)
            if process.poll() is None:
                result["threads"] = thread_seconds(process.pid)
    finally:
        result["exit"] = stop(process)
        reader.join(timeout=5)
        text = "".join(lines)
        if o.log:
            with open(o.log, "w") as f:
                f.write(text)
        for name, values in deferred.items():
            defer(name, *values)
        for name, promiscuous in before.items():
            if xdp_mode(name) is not None:
                subprocess.run(["ip", "link", "set", "dev", name, "xdp", "off"])
            if not promiscuous:
                subprocess.run(["ip", "link", "set", "dev", name, "promisc", "off"])
        result["packets"] = counters(text)
        print(json.dumps(result), flush=True)
    if result["packets"] is None:
        sys.stderr.write(text[-3000:])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
