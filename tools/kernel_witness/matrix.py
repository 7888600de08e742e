"""What is compared: queues of the kernel under loads, each a run of its own."""

RATE_BPS = 10_000_000
RTT_MS = 80
# A run, and its beginning that is not measured; in seconds.
SECONDS = 40
WARMUP = 10
# Ethernet headers count, as the kernel counts them; nothing else does.
FRAME = 1514
PAYLOAD = 1472

# Room for as many packets as CoDel and PIE of the kernel have by default.
PACKETS = 1000
# CAKE counts the memory of packets, 2304 bytes for each of these.
FEW = 200
TRUESIZE = 2304

# What `tc` is told, and whether HTB shapes above it.
QUEUES = {
    "pfifo": ("pfifo limit 100", True, 100),
    "codel": ("codel ecn", True, PACKETS),
    "fq_codel": ("fq_codel", True, 10240),
    "pie": ("pie ecn", True, PACKETS),
    "cake": (f"cake bandwidth {RATE_BPS}bit besteffort flowblind raw memlimit {PACKETS * TRUESIZE}", False, PACKETS),
    "cake_small": (f"cake bandwidth {RATE_BPS}bit besteffort flowblind raw memlimit {FEW * TRUESIZE}", False, FEW),
}


def tcp(queue, congestion, flows, ecn=False):
    name = f"{queue}_{congestion}_{flows}{'_ecn' if ecn else ''}"
    return {"name": name, "queue": queue, "congestion": congestion, "flows": flows, "ecn": ecn}


def udp(queue, load):
    gap = round(FRAME * 8e9 / (RATE_BPS * load))
    return {"name": f"{queue}_udp_{round(100 * load)}", "queue": queue, "flows": 1, "gap_ns": gap}


def runs():
    yield udp("pfifo", 0.8)
    yield udp("pfifo", 1.2)
    yield tcp("pfifo", "reno", 1)
    yield tcp("pfifo", "cubic", 4)
    for queue in ["codel", "fq_codel", "pie", "cake"]:
        yield udp(queue, 1.2)
        for congestion in ["reno", "cubic"]:
            for flows in [1, 4, 16]:
                yield tcp(queue, congestion, flows)
        yield tcp(queue, "cubic", 4, ecn=True)
    yield udp("pie", 2.0)
    yield udp("cake_small", 2.0)


def script(run):
    """The variables of `init.sh`."""
    qdisc, htb, _ = QUEUES[run["queue"]]
    if "gap_ns" in run:
        source = f"udp 10.0.2.2 5000 {PAYLOAD} {run['gap_ns']}"
    else:
        source = f"tcp 10.0.2.2 5000 {run['flows']} {run['congestion']}"
    variables = {
        "QDISC": qdisc, "HTB": "1" if htb else "", "SOURCE": source, "RATE": f"{RATE_BPS}bit", "RTT": f"{RTT_MS}ms",
        "ECN": 1 if run.get("ecn") else 0, "WARMUP": WARMUP, "SECONDS": SECONDS,
    }
    return "".join(f"{name}='{value}'\n" for name, value in variables.items())
