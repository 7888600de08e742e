#!/bin/busybox sh
# The first process of the guest: makes every queue of /scenario on a veth, sends some packets, and writes what netlink
# and `tc -s -j` say of it. A line of /scenario: a name, "|", `tc` commands separated by ";", in which DEV is the interface.
# Lines that begin with "@" are for tools/tc-record.
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
ip() { /tools/ip "$@"; }

one() { # one NAME COMMANDS
	ip link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1 numtxqueues 4 numrxqueues 4
	ip netns add far
	ip link set v1 netns far
	ip addr add 10.0.0.1/24 dev v0
	ip netns exec far /tools/ip addr add 10.0.0.2/24 dev v1
	ip netns exec far /tools/ip link set v1 up
	ip link set v0 up
	/tools/record watch 1 >/run/watch &
	watch=$!
	sleep 0.05
	echo "$2" | sed 's/DEV/v0/g' | tr ';' '\n' >/run/commands
	failed=0
	while read -r command; do /tools/tc $command || failed=1; done </run/commands
	ping -c 3 -i 0.05 10.0.0.2 >/dev/null
	for what in qdisc class; do
		/tools/record $what v0 | while read -r hex; do echo "@message $1 $what $hex"; done
	done
	echo "@tc $1 $(/tools/tc -s -j qdisc show dev v0 | tr -d '\n')"
	/tools/tc qdisc del dev v0 root 2>/dev/null
	wait $watch
	while read -r hex; do echo "@message $1 told $hex"; done </run/watch
	[ $failed = 0 ] || echo "@failed $1"
	ip netns del far
	ip link del v0 2>/dev/null
}

echo 8 >/proc/sys/kernel/printk
# Some need others, so that a second round loads what the first one could not.
for round in 1 2; do
	for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
echo
echo "@kernel $(uname -r) $(uname -v)"
while IFS='|' read -r name commands; do one "$name" "$commands" </dev/null; done </scenario
echo "@done"
poweroff -f
