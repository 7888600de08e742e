/* TCP and datagrams through one bottleneck whose queue is one of ns-3's own or, where weir-queue-disc.h lies beside this file,
 * one of libweir's; a line of JSON.
 *
 *   dumbbell --queue=ns3::CoDelQueueDisc --ns3::CoDelQueueDisc::Target=10ms
 *   dumbbell --queue=weir --config="aqm = { name = 'gsp' }"
 *   dumbbell --groups="2,ns3::TcpCubic,20ms,0s,60s,0bps;1,udp,40ms,10s,20s,5Mbps"
 *
 * A group is a number of flows, their congestion control (a TypeId, or udp), round-trip time, start, stop, and rate of datagrams.
 */
#if __has_include("weir-queue-disc.h")
#include "weir-queue-disc.h"
#endif

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>
#include <unordered_map>

using namespace ns3;

static Time begin;
static Ptr<QueueDisc> disc;

/* Packets in the queue and when they came: by where they lie, as segments of one write have one number. */
static std::unordered_map<const Packet*, Time> waiting;

/* How long packets waited until their transmission began, in milliseconds. */
static std::vector<double> sojourns;
static uint64_t sent;
static uint64_t packets;

/* What happened since the last sample. */
static struct Period
{
    uint64_t arrived, delivered, left;
    double waited, longest;
} period;

/* Sums since the start of the run. */
struct Counts
{
    uint64_t drops, overflows, marks;
};

static std::ostringstream samples;
static Counts sampled;

/* Reasons of ns-3 that mean that there was no room. */
static Counts
Count()
{
    const QueueDisc::Stats& stats = disc->GetStats();
    uint64_t full = stats.GetNDroppedPackets("Overlimit drop") + stats.GetNDroppedPackets("Dropped by internal queue");
    for (uint32_t n = 0; n < disc->GetNQueueDiscClasses(); n++)
    {
        full += disc->GetQueueDiscClass(n)->GetQueueDisc()->GetStats().GetNDroppedPackets("Overlimit drop");
    }
    if (disc->GetInstanceTypeId().GetName() == "ns3::PieQueueDisc")
    {
        full += stats.GetNDroppedPackets("Forced drop");
    }
    full = std::min<uint64_t>(full, stats.nTotalDroppedPackets);
    return {stats.nTotalDroppedPackets - full, full, stats.nTotalMarkedPackets};
}

static void
Came(Ptr<const QueueDiscItem> item)
{
    waiting[PeekPointer(item->GetPacket())] = Simulator::Now();
    period.arrived += item->GetSize();
}

static void
Lost(Ptr<const QueueDiscItem> item)
{
    waiting.erase(PeekPointer(item->GetPacket()));
}

static void
Begins(Ptr<const Packet> packet)
{
    auto found = waiting.find(PeekPointer(packet));
    if (found == waiting.end())
    {
        return;
    }
    const double ms = (Simulator::Now() - found->second).GetSeconds() * 1e3;
    waiting.erase(found);
    period.left++;
    period.waited += ms;
    period.longest = std::max(period.longest, ms);
    if (Simulator::Now() >= begin)
    {
        sojourns.push_back(ms);
    }
}

static void
Sent(Ptr<const Packet> packet)
{
    period.delivered += packet->GetSize();
    if (Simulator::Now() >= begin)
    {
        sent += packet->GetSize();
        packets++;
    }
}

static void
TakeSample(Time every)
{
    const Counts now = Count();
    samples << (samples.tellp() > 0 ? ", " : "") << "[" << Simulator::Now().GetSeconds() << ", " << period.arrived << ", "
            << period.delivered << ", " << (period.left ? period.waited / period.left : 0) << ", " << period.longest << ", "
            << disc->GetNBytes() << ", " << now.drops - sampled.drops << ", " << now.overflows - sampled.overflows << ", "
            << now.marks - sampled.marks << "]";
    sampled = now;
    period = Period();
    Simulator::Schedule(every, &TakeSample, every);
}

#ifdef WEIR_QUEUE_DISC_H
static std::string config = "aqm = { name = 'codel' }";

/* ns-3 reads a text only up to its first blank, but hands a callback all of it. */
static bool
TakeConfig(const std::string& text)
{
    config = text;
    return true;
}
#endif

static std::string grouped;

static bool
TakeGroups(const std::string& text)
{
    grouped = text;
    return true;
}

struct Group
{
    uint32_t count;
    std::string control;
    Time rtt, start, stop;
    DataRate datagrams;
};

static std::vector<Group>
Groups(const std::string& text)
{
    std::vector<Group> groups;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line, ';');)
    {
        std::istringstream words(line);
        std::vector<std::string> of;
        for (std::string word; std::getline(words, word, ',');)
        {
            of.push_back(word);
        }
        NS_ABORT_MSG_IF(of.size() != 6, "a group has six parts: " << line);
        groups.push_back({uint32_t(std::stoul(of[0])), of[1], Time(of[2]), Time(of[3]), Time(of[4]), DataRate(of[5])});
    }
    return groups;
}

static double
Share(const std::vector<double>& sorted, double of)
{
    return sorted.empty() ? 0 : sorted[std::min(sorted.size() - 1, size_t(of * sorted.size()))];
}

int
main(int argc, char** argv)
{
    std::string queue = "ns3::CoDelQueueDisc";
    std::string tcp = "ns3::TcpLinuxReno";
    DataRate rate("20Mbps");
    Time rtt = MilliSeconds(40);
    Time buffer = MilliSeconds(200);
    Time duration = Seconds(60);
    Time every = Seconds(0);
    begin = Seconds(10);
    uint32_t flows = 4;
    uint32_t room = 0;
    uint32_t mtu = 1500;
    double overhead = 2;
    bool ecn = false;
    CommandLine command(__FILE__);
#ifdef WEIR_QUEUE_DISC_H
    queue = "weir";
    command.AddValue("config", "of weir: tables queue, aqm and policy as TOML; the rate is added", MakeCallback(&TakeConfig));
#endif
    command.AddValue("queue", "the name of a queue disc of ns-3, or weir where libweir is built in", queue);
    command.AddValue("tcp", "congestion control, a TypeId of ns-3", tcp);
    command.AddValue("rate", "of the bottleneck", rate);
    command.AddValue("rtt", "round-trip time without a queue", rtt);
    command.AddValue("buffer", "room at the bottleneck, as time at its rate", buffer);
    command.AddValue("room", "the same in packets, in place of it", room);
    command.AddValue("duration", "of the run", duration);
    command.AddValue("warmup", "what is measured begins then", begin);
    command.AddValue("flows", "downloads", flows);
    command.AddValue("groups", "flows of several kinds, in place of flows, tcp and rtt", MakeCallback(&TakeGroups));
    command.AddValue("ecn", "whether they use ECN", ecn);
    command.AddValue("mtu", "largest IP packet", mtu);
    command.AddValue("overhead", "bytes that the link of the rate has around an IP packet; full packets take the time that they take there", overhead);
    command.AddValue("sample", "samples so often; none if zero", every);
    command.Parse(argc, argv);

    // A link of point-to-point protocol has two bytes around a packet.
    const DataRate narrowed(uint64_t(rate.GetBitRate() * (mtu + 2.0) / (mtu + overhead)));
    if (grouped.empty())
    {
        std::ostringstream one;
        one << flows << "," << tcp << "," << rtt.As(Time::US) << ",0s," << duration.As(Time::US) << ",0bps";
        grouped = one.str();
    }
    const std::vector<Group> groups = Groups(grouped);

    // TCP as Linux has it.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mtu - 52));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    // With delayed acknowledgements a sender that got down to one segment stays there: each of its segments waits 200 ms.
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));

    Ptr<Node> left = CreateObject<Node>();
    Ptr<Node> right = CreateObject<Node>();
    NodeContainer senders(groups.size());
    NodeContainer receivers(groups.size());
    InternetStackHelper stack;
    stack.Install(left);
    stack.Install(right);
    for (uint32_t n = 0; n < groups.size(); n++)
    {
        if (groups[n].control != "udp")
        {
            Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(groups[n].control)));
        }
        stack.Install(senders.Get(n));
        stack.Install(receivers.Get(n));
    }

    PointToPointHelper narrow;
    narrow.SetDeviceAttribute("DataRate", DataRateValue(narrowed));
    narrow.SetDeviceAttribute("Mtu", UintegerValue(mtu));
    narrow.SetChannelAttribute("Delay", TimeValue(Seconds(0)));
    // What waits, waits in the queue disc.
    narrow.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer middle = narrow.Install(left, right);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");

    const double seconds = buffer.GetSeconds();
    const uint64_t bytes = narrowed.GetBitRate() / 8.0 * seconds;
    const uint64_t most = room > 0 ? room : bytes / (mtu + 2);
    TrafficControlHelper control;
#ifdef WEIR_QUEUE_DISC_H
    if (queue == "weir")
    {
        // Lengths are those of IP packets; on the link each has two bytes more.
        const uint64_t ip = narrowed.GetBitRate() * double(mtu) / (mtu + 2);
        const std::string text =
            "rate = '" + std::to_string(ip) + "bit/s'\nbuffer = '" + std::to_string(most * mtu) + "B'\n" + config;
        control.SetRootQueueDisc("ns3::WeirQueueDisc", "Config", StringValue(text));
    }
    else
#endif
    {
        control.SetRootQueueDisc(queue, "MaxSize", StringValue(std::to_string(most) + "p"));
    }
    disc = control.Install(middle.Get(0)).Get(0);
    disc->TraceConnectWithoutContext("Enqueue", MakeCallback(&Came));
    disc->TraceConnectWithoutContext("Drop", MakeCallback(&Lost));
    middle.Get(0)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Begins));
    middle.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));
    addresses.Assign(middle);

    Ptr<UniformRandomVariable> dice = CreateObject<UniformRandomVariable>();
    std::vector<Ptr<PacketSink>> sinks;
    std::vector<uint32_t> kinds;
    for (uint32_t n = 0; n < groups.size(); n++)
    {
        const Group& group = groups[n];
        PointToPointHelper access;
        access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(std::max<uint64_t>(1000000000, 20 * narrowed.GetBitRate()))));
        access.SetDeviceAttribute("Mtu", UintegerValue(mtu));
        // So much that nothing is lost here.
        access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));
        access.SetChannelAttribute("Delay", TimeValue(group.rtt / 4));
        addresses.NewNetwork();
        addresses.Assign(access.Install(senders.Get(n), left));
        addresses.NewNetwork();
        const Ipv4Address far = addresses.Assign(access.Install(right, receivers.Get(n))).GetAddress(1);
        const std::string factory = group.control == "udp" ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
        for (uint32_t flow = 0; flow < group.count; flow++)
        {
            const InetSocketAddress to(far, 5000 + flow);
            ApplicationContainer sender;
            if (group.control == "udp")
            {
                OnOffHelper datagrams(factory, to);
                // The rate counts as that of the link does; the application's is that of its payload.
                const double payload = mtu - 28;
                datagrams.SetConstantRate(DataRate(uint64_t(group.datagrams.GetBitRate() * payload / (mtu + overhead))), payload);
                sender = datagrams.Install(senders.Get(n));
            }
            else
            {
                sender = BulkSendHelper(factory, to).Install(senders.Get(n));
            }
            // Flows that begin at one moment do not send their packets at one.
            sender.Start(group.start + Seconds(dice->GetValue(0, 0.01)));
            sender.Stop(group.stop);
            sinks.push_back(PacketSinkHelper(factory, to).Install(receivers.Get(n)).Get(0)->GetObject<PacketSink>());
            kinds.push_back(n);
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Counts before = {};
    std::vector<uint64_t> received(sinks.size());
    Simulator::Schedule(begin, [&]() {
        before = Count();
        for (size_t n = 0; n < sinks.size(); n++)
        {
            received[n] = sinks[n]->GetTotalRx();
        }
    });
    if (every > Seconds(0))
    {
        Simulator::Schedule(every, &TakeSample, every);
    }
    // The last sample is taken at the end.
    Simulator::Stop(duration + NanoSeconds(1));
    Simulator::Run();

    const double length = (duration - begin).GetSeconds();
    const QueueDisc::Stats stats = disc->GetStats();
    const Counts counts = Count();
    double sum = 0;
    for (double ms : sojourns)
    {
        sum += ms;
    }
    std::sort(sojourns.begin(), sojourns.end());
    std::cout.precision(9);
    std::cout << "{\"queue\": \"" << queue << "\", \"utilization\": " << sent * 8 / length / narrowed.GetBitRate()
              << ", \"delay_mean_ms\": " << (sojourns.empty() ? 0 : sum / sojourns.size()) << ", \"delay_p50_ms\": " << Share(sojourns, 0.5)
              << ", \"delay_p95_ms\": " << Share(sojourns, 0.95) << ", \"delay_p99_ms\": " << Share(sojourns, 0.99)
              << ", \"delay_max_ms\": " << (sojourns.empty() ? 0 : sojourns.back()) << ", \"packets\": " << packets
              << ", \"drops\": " << counts.drops - before.drops << ", \"overflows\": " << counts.overflows - before.overflows
              << ", \"marks\": " << counts.marks - before.marks << ", \"received\": " << stats.nTotalReceivedPackets
              << ", \"sent\": " << stats.nTotalSentPackets << ", \"dropped\": " << stats.nTotalDroppedPackets
              << ", \"left\": " << disc->GetNPackets() << ", \"flows\": [";
    for (size_t n = 0; n < sinks.size(); n++)
    {
        std::cout << (n ? ", " : "") << "[" << kinds[n] << ", " << sinks[n]->GetTotalRx() - received[n] << "]";
    }
    std::cout << "], \"samples\": [" << samples.str() << "]}\n";
    Simulator::Destroy();
    return 0;
}
