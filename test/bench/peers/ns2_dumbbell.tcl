# Twenty CUBIC flows with SACK over a bottleneck of 1 Gbit/s and a round trip of 50 ms, for ns-2.35.
#
#   ns ns2_dumbbell.tcl SECONDS (time | count) (hosts | bare) [all]
#
# Prints the wall time of the simulation in seconds (time), or the packets that left the bottleneck (count).
# Counting costs time; the simulation is deterministic, so that two runs of the same length agree.
#
# `hosts`: the dumbbell, in which every host has a node and a link of 10 Gbit/s of its own. `bare`: all agents sit
# on the two nodes of the bottleneck, which is the least that ns-2 can do; no host is modelled. Nothing is traced,
# and packets carry only the headers that are used (`all`: every header there is, as without a thought about
# it). Acknowledgements need a link of their own, as every route does. This release has no CoDel, so that the
# queue is adaptive RED with a target of 5 ms.

lassign $argv seconds what topology headers

Trace set show_tcphdr_ 0
if {$headers ne "all"} {
	remove-all-packet-headers
	add-packet-header IP TCP Flags
}

Agent/TCP set window_ 1000000
Agent/TCP set maxcwnd_ 1000000
# With 40 bytes of headers, 1538 on the line.
Agent/TCP set packetSize_ 1498
Agent/TCP/Linux set timestamps_ true
Queue/RED set adaptive_ 1
Queue/RED set targetdelay_ 0.005
Queue/RED set gentle_ true
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set setbit_ false
Queue/RED set mean_pktsize_ 1538

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns simplex-link $left $right 1000Mb 25ms RED
$ns simplex-link $right $left 10000Mb 25ms DropTail
# One bandwidth-delay product, as the scenario of the simulator that is measured has it.
$ns queue-limit $left $right 4063
$ns queue-limit $right $left 100000

# The node of a host beside `router`.
proc host {router} {
	global ns topology
	if {$topology eq "bare"} { return $router }
	set node [$ns node]
	$ns duplex-link $node $router 10000Mb 0ms DropTail
	$ns queue-limit $node $router 100000
	$ns queue-limit $router $node 100000
	return $node
}

for {set i 0} {$i < 20} {incr i} {
	set tcp [new Agent/TCP/Linux]
	set sink [new Agent/TCPSink/Sack1/DelAck]
	$sink set interval_ 40ms
	$sink set ts_echo_rfc1323_ true
	$ns attach-agent [host $left] $tcp
	$ns attach-agent [host $right] $sink
	$ns connect $tcp $sink
	$ns at 0 "$tcp select_ca cubic"
	set ftp [new Application/FTP]
	$ftp attach-agent $tcp
	$ns at [expr {$i * 0.0005}] "$ftp start"
}

if {$what eq "count"} {
	set monitor [$ns monitor-queue $left $right ""]
}
proc finish {} {
	global what monitor begun
	if {$what eq "count"} {
		puts [$monitor set pdepartures_]
	} else {
		puts [expr {([clock microseconds] - $begun) / 1e6}]
	}
	exit 0
}
$ns at $seconds finish
set begun [clock microseconds]
$ns run
