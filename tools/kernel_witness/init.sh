#!/bin/busybox sh
# The first process of the guest: makes the network, runs one scenario, says what came of it, and switches off.
# /scenario sets QDISC (what is under test, with its options), SOURCE (what sends), STEER (arguments of `weir steer`, or
# nothing), or in the place of both QUEUE (a configuration for `weir run --in-kernel=queue`), HTB (empty where the queue shapes itself),
# RATE, RTT, ECN, WARMUP and SECONDS. With DISTURB, nothing is measured: that
# is done to the queue at WARMUP, and what `weir steer` says of it is. Lines that begin with "@" are for tools/kernel-witness and
# tools/steer-witness.
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run

# The shell would take its own applets first.
ip() { /tools/ip "$@"; }
at() { # at NAMESPACE COMMAND...
	namespace=$1
	shift
	ip netns exec "$namespace" "$@"
}
plain() { # packets as they are on the line: nothing is merged or split by interfaces
	/tools/ethtool -K "$1" tso off gso off gro off tx off rx off sg off >/dev/null
	/tools/ip link set "$1" up
}

make_network() { # src -- router (here) -- dst
	ip netns add src
	ip netns add dst
	ip link add s0 type veth peer name r0
	ip link add d0 type veth peer name r1
	ip link set s0 netns src
	ip link set d0 netns dst
	plain r0
	plain r1
	for end in "src s0" "dst d0"; do
		set -- $end
		at "$1" ethtool -K "$2" tso off gso off gro off tx off rx off sg off >/dev/null
		at "$1" ip link set "$2" up
	done
	ip addr add 10.0.1.1/24 dev r0
	ip addr add 10.0.2.1/24 dev r1
	at src ip addr add 10.0.1.2/24 dev s0
	at dst ip addr add 10.0.2.2/24 dev d0
	at src ip route add default via 10.0.1.1
	at dst ip route add default via 10.0.2.1
	echo 1 >/proc/sys/net/ipv4/ip_forward
}

tune() { # no memory of earlier connections, windows that limit nothing
	at "$1" sh -c "cd /proc/sys/net/ipv4; echo 1 >tcp_no_metrics_save; echo $ECN >tcp_ecn
		echo '4096 4000000 16000000' >tcp_wmem; echo '4096 4000000 16000000' >tcp_rmem"
}

make_queue() { # the whole round-trip time is on the way back, where acknowledgements go
	at dst tc qdisc add dev d0 root netem delay "$RTT" limit 100000
	if [ -n "${QUEUE:-}" ]; then
		echo "$QUEUE" >/run/queue.toml
		return
	fi
	if [ -z "$HTB" ]; then
		/tools/tc qdisc add dev r1 root handle 10: $QDISC
		return
	fi
	/tools/tc qdisc add dev r1 root handle 1: htb default 1
	/tools/tc class add dev r1 parent 1: classid 1:1 htb rate "$RATE" burst 1514 cburst 1514 quantum 1514
	/tools/tc qdisc add dev r1 parent 1:1 handle 10: $QDISC
}

shown() { # what is there; of a kind that this `tc` does not know, as Weir reads it
	disciplines=$(/tools/tc -j qdisc show dev r1)
	case $disciplines in
	*"Unknown qdisc"*) /tools/weir --json steer r1 --dry-run | tr -d '\n' ;;
	*) echo "${disciplines:-[]}" ;;
	esac
}

steer() { # in the background
	if [ -n "${QUEUE:-}" ]; then
		/tools/weir --json run /run/queue.toml --in-kernel=queue >"$1" 2>>/run/said &
	else
		/tools/weir --json steer r1 $STEER >"$1" 2>>/run/said &
	fi
	steer=$!
}

disturb() {
	case $DISTURB in
	replaced)
		/tools/tc qdisc del dev r1 parent 1:1
		/tools/tc qdisc add dev r1 parent 1:1 handle 10: $QDISC
		;;
	rival) /tools/tc qdisc change dev r1 parent 1:1 handle 10: codel target 7ms ;;
	down)
		ip link set r1 down
		sleep 1
		ip link set r1 up
		;;
	clock) date -s "@$(($(date +%s) + 3600))" >/dev/null ;;
	queue_replaced) /tools/tc qdisc replace dev r1 root handle 20: pfifo ;;
	queue_gone) ip link del r1 ;;
	*killed)
		kill -KILL $steer
		wait $steer 2>/dev/null || true
		;;
	esac
}

disturbed() { # how long it takes until it is told, and what is there then
	sleep "$WARMUP"
	echo "@there $(shown)"
	disturb
	echo "@done_to $(shown)"
	waited=0
	while ! grep -q somebody /run/said && [ $waited -lt 2000 ]; do
		usleep 20000
		waited=$((waited + 20))
	done
	echo "@told_after_ms $waited"
	case $DISTURB in *killed) steer /run/again ;; esac
	sleep $((SECONDS - WARMUP - waited / 1000))
	echo "@result {}"
}

run() {
	. /scenario
	make_network
	tune src
	tune dst
	make_queue
	at dst probe sink 5000 &
	at src ping -c 2 10.0.2.2 >/dev/null
	echo "@before $(head -1 /proc/stat)"
	if [ -z "${DISTURB:-}" ]; then
		/tools/probe watch r0 r1 00100000 "$WARMUP" "$SECONDS" >/run/result &
		watch=$!
		sleep 0.01
	fi
	if [ -n "${STEER:-}${QUEUE:-}" ]; then
		echo "@found $(shown)"
		steer /run/steered
		# Without its queue the flows would have no bottleneck.
		if [ -n "${QUEUE:-}" ]; then
			sleep 0.5
			kill -0 $steer
		fi
	fi
	at src probe $SOURCE $((SECONDS + 1)) &
	if [ -z "${DISTURB:-}" ]; then
		wait $watch
		echo "@result $(cat /run/result)"
	else
		disturbed
	fi
	echo "@after $(head -1 /proc/stat)"
	echo "@qdisc $(/tools/tc -s -j qdisc show dev r1)"
	echo "@class $(/tools/tc -s class show dev r1 | tr '\n' ' ')"
	if [ -n "${STEER:-}${QUEUE:-}" ]; then
		# One that has left its queue is gone already.
		kill -TERM $steer 2>/dev/null || true
		wait $steer || true
		sed 's/^/ /' /run/said | tail -20
		echo "@steered $(cat /run/steered /run/again 2>/dev/null | tr -d '\n')"
		echo "@left $(shown)"
	fi
}

# Some need others, so that a second round loads what the first one could not.
for round in 1 2; do
	for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
# The firmware leaves its line unfinished.
echo
echo "@kernel $(uname -r) $(uname -v)"
(set -e; run) && echo "@done"
poweroff -f
