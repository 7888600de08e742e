# An experiment of the AVQ paper in ns-2.35 (Debian package `ns2`): flows of TCP Newreno over one managed queue.
#
#   ns witness.tcl SETUP
#
# SETUP is a Tcl file that sets
#   rate       of the link, in bit/s
#   limit      of its queue, in packets
#   packet     size of a packet with its headers, in bytes
#   kind       class of the queue, such as RED
#   settings   its parameters: names and values
#   groups     flows that are alike, each a list of
#              count, shortest and longest round-trip time, start, spread of the starts, stop or -1,
#              packets of a transfer or -1, time between transfers; all times in seconds
#   first      packets of the first round trip
#   most       packets of the largest window
#   least      smallest retransmission timeout in seconds, or nothing for that of Linux
#   tick       of the clock of the senders, in seconds
#   ecn        whether the flows use ECN
#   sample     time between two lines of the output, in seconds
#   edges      times of the ends of the spans, in seconds
#   duration   of the run, in seconds
#   seed       of the random numbers
#
# It prints lines of two kinds, with sums since the start:
#   s TIME DEPARTED LOST QUEUE INTEGRAL    packets, and packets times seconds that waited; those that open
#                                          connections are smaller and count as their share
#   f TIME SHORT LONG...                   packets acknowledged to all short flows, and to each long one

source [lindex $argv 0]

# Other headers than these make packets in memory larger and nothing else.
remove-all-packet-headers
add-packet-header IP TCP Flags

# Headers take 52 bytes, with timestamps, which ns-2 adds itself. An acknowledgement that was timed by them ends a backoff.
Agent/TCP set timestamps_ true
Agent/TCP set ts_resetRTO_ true
Agent/TCP set ts_option_size_ 12
Agent/TCPSink set ts_echo_rfc1323_ true
Agent/TCP set packetSize_ [expr {$packet - 52}]
# Windows grow by a packet at a time, when so many are acknowledged, as in Linux, and not by a fraction with each.
Agent/TCP set windowOption_ 0
Agent/TCP set window_ $most
Agent/TCP set maxcwnd_ 0
Agent/TCP set windowInit_ $first
Agent/TCP set ecn_ $ecn
Agent/TCP set tcpTick_ $tick
# Hosts never act at the same moment; without it, flows keep their phases and the same ones lose.
Agent/TCP set overhead_ 0.00001

foreach {name value} $settings { Queue/$kind set $name $value }

set ns [new Simulator]
set dice [new RNG]
for {set i 0} {$i < $seed} {incr i} { $dice next-substream }
$defaultRNG seed [expr {$seed + 1}]

set left [$ns node]
set right [$ns node]
$ns simplex-link $left $right $rate 0ms $kind
$ns simplex-link $right $left 10000Mb 0ms DropTail
$ns queue-limit $left $right $limit
$ns queue-limit $right $left 100000

# A host on the left whose way there and back takes `rtt`.
proc host {rtt} {
	global ns left way
	set node [$ns node]
	set way($node) $rtt
	$ns duplex-link $node $left 10000Mb [expr {$rtt / 2}] DropTail
	$ns queue-limit $node $left 100000
	$ns queue-limit $left $node 100000
	return $node
}

# A sender on `node` and its receiver on the right.
#
# Its least timeout is that of the setup, or else 200 ms above the round-trip time, as in Linux and RFC 8961. ns-2 has 200 ms for all, so that
# flows whose windows were marked down to less than a packet would come back in step.
proc connection {node} {
	global ns right way least
	set tcp [new Agent/TCP/Newreno]
	$tcp set minrto_ [expr {$least eq "" ? 0.2 + $way($node) : $least}]
	set sink [new Agent/TCPSink]
	$ns attach-agent $node $tcp
	$ns attach-agent $right $sink
	$ns connect $tcp $sink
	return [list $tcp $sink]
}

# Finished connections are used again, once nothing of them is on its way any more.
set linger 5.0
set short 0
proc transfer {node packets every stop} {
	global ns free
	if {$stop >= 0 && [$ns now] >= $stop} return
	if {[llength $free($node)] > 0} {
		lassign [lindex $free($node) 0] tcp sink
		set free($node) [lrange $free($node) 1 end]
		$tcp reset
		$sink reset
	} else {
		lassign [connection $node] tcp sink
	}
	$tcp proc done {} [list finished $node $tcp $sink $packets]
	$tcp advance $packets
	$ns at [expr {[$ns now] + $every}] [list transfer $node $packets $every $stop]
}
proc finished {node tcp sink packets} {
	global ns short linger
	incr short $packets
	$ns at [expr {[$ns now] + $linger}] [list release $node $tcp $sink]
}
proc release {node tcp sink} {
	global free
	lappend free($node) [list $tcp $sink]
}

set long {}
foreach group $groups {
	lassign $group count shortest longest start spread stop packets every
	for {set i 0} {$i < $count} {incr i} {
		set node [host [$dice uniform $shortest $longest]]
		set at [expr {$start + [$dice uniform 0 $spread]}]
		if {$packets >= 0} {
			set free($node) {}
			$ns at $at [list transfer $node $packets $every $stop]
			continue
		}
		lassign [connection $node] tcp sink
		lappend long $tcp
		set ftp [new Application/FTP]
		$ftp attach-agent $tcp
		$ns at $at "$ftp start"
		if {$stop >= 0} { $ns at $stop "$ftp stop" }
	}
}

set monitor [$ns monitor-queue $left $right ""]
set integral [$monitor get-pkts-integrator]
proc look {} {
	global ns monitor integral sample packet
	set now [$ns now]
	set queue [$monitor set pkts_]
	# The integrator stands where the queue changed last.
	set waited [expr {[$integral set sum_] + ($now - [$integral set lastx_]) * $queue}]
	set departed [expr {[$monitor set bdepartures_] / double($packet)}]
	puts "s $now $departed [$monitor set pdrops_] $queue $waited"
	$ns at [expr {$now + $sample}] look
}
proc flows {} {
	global ns long short
	set got {}
	foreach tcp $long { lappend got [expr {max(0, [$tcp set ack_])}] }
	puts "f [$ns now] $short $got"
}
$ns at $sample look
foreach edge $edges { $ns at [expr {$edge - 1e-6}] flows }
$ns at [expr {$duration + $sample / 2}] { exit 0 }
$ns run
