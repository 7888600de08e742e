/* TCP through one bottleneck whose queue is one of libweir's or one of ns-3's own; a line of JSON.
 *
 *   dumbbell --queue=weir --config="aqm = { name = 'gsp' }"
 *   dumbbell --queue=ns3::CoDelQueueDisc
 */
#include "weir-queue-disc.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cmath>
#include <iostream>

using namespace ns3;

static Time begin;
static std::vector<double> sojourns;
static uint64_t sent;

static void
Waited(Time sojourn)
{
    if (Simulator::Now() >= begin)
    {
        sojourns.push_back(sojourn.GetSeconds() * 1e3);
    }
}

static void
Sent(Ptr<const Packet> packet)
{
    if (Simulator::Now() >= begin)
    {
        sent += packet->GetSize();
    }
}

static std::string config = "aqm = { name = 'codel' }";

/* ns-3 reads a text only up to its first blank, but hands a callback all of it. */
static bool
TakeConfig(const std::string& text)
{
    config = text;
    return true;
}

int
main(int argc, char** argv)
{
    std::string queue = "weir";
    std::string tcp = "ns3::TcpLinuxReno";
    DataRate rate("20Mbps");
    Time rtt = MilliSeconds(40);
    Time buffer = MilliSeconds(200);
    Time duration = Seconds(60);
    begin = Seconds(10);
    uint32_t flows = 4;
    bool ecn = false;
    CommandLine command(__FILE__);
    command.AddValue("queue", "weir, or the name of a queue disc of ns-3", queue);
    command.AddValue("config", "of weir: tables queue, aqm and policy as TOML; the rate is added", MakeCallback(&TakeConfig));
    command.AddValue("tcp", "congestion control, a TypeId of ns-3", tcp);
    command.AddValue("rate", "of the bottleneck", rate);
    command.AddValue("rtt", "round-trip time without a queue", rtt);
    command.AddValue("buffer", "room at the bottleneck, as time at its rate", buffer);
    command.AddValue("duration", "of the run", duration);
    command.AddValue("warmup", "what is measured begins then", begin);
    command.AddValue("flows", "downloads", flows);
    command.AddValue("ecn", "whether they use ECN", ecn);
    command.Parse(argc, argv);

    // TCP as Linux has it.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(tcp));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));

    NodeContainer nodes(4);
    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", TimeValue(rtt / 8));
    PointToPointHelper narrow;
    narrow.SetDeviceAttribute("DataRate", DataRateValue(rate));
    narrow.SetChannelAttribute("Delay", TimeValue(rtt / 4));
    // What waits, waits in the queue disc.
    narrow.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer left = access.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer middle = narrow.Install(nodes.Get(1), nodes.Get(2));
    NetDeviceContainer right = access.Install(nodes.Get(2), nodes.Get(3));
    InternetStackHelper().Install(nodes);

    const uint64_t room = rate.GetBitRate() / 8.0 * buffer.GetSeconds();
    TrafficControlHelper control;
    if (queue == "weir")
    {
        // Lengths are those of IP packets; on the link each has two bytes more.
        const uint64_t ip = rate.GetBitRate() * 1500.0 / 1502;
        const std::string text =
            "rate = '" + std::to_string(ip) + "bit/s'\nbuffer = '" + std::to_string(room) + "B'\n" + config;
        control.SetRootQueueDisc("ns3::WeirQueueDisc", "Config", StringValue(text));
    }
    else
    {
        const std::string packets = std::to_string(room / 1500) + "p";
        control.SetRootQueueDisc(queue, "MaxSize", StringValue(packets));
    }
    Ptr<QueueDisc> disc = control.Install(middle.Get(0)).Get(0);
    disc->TraceConnectWithoutContext("SojournTime", MakeCallback(&Waited));
    middle.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));

    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    addresses.Assign(left);
    addresses.NewNetwork();
    addresses.Assign(middle);
    addresses.NewNetwork();
    Ipv4InterfaceContainer far = addresses.Assign(right);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ptr<UniformRandomVariable> dice = CreateObject<UniformRandomVariable>();
    for (uint32_t n = 0; n < flows; n++)
    {
        InetSocketAddress to(far.GetAddress(1), 5000 + n);
        BulkSendHelper sender("ns3::TcpSocketFactory", to);
        sender.Install(nodes.Get(0)).Start(Seconds(dice->GetValue(0, 0.01)));
        PacketSinkHelper("ns3::TcpSocketFactory", to).Install(nodes.Get(3));
    }

    Simulator::Stop(duration);
    Simulator::Run();

    const double length = (duration - begin).GetSeconds();
    const QueueDisc::Stats stats = disc->GetStats();
    std::sort(sojourns.begin(), sojourns.end());
    auto share = [](double of) { return sojourns.empty() ? NAN : sojourns[std::min(sojourns.size() - 1, size_t(of * sojourns.size()))]; };
    std::cout << "{\"queue\": \"" << queue << "\", \"utilization\": " << sent * 8 / length / rate.GetBitRate()
              << ", \"delay_p50_ms\": " << share(0.5) << ", \"delay_p95_ms\": " << share(0.95) << ", \"packets\": " << sojourns.size()
              << ", \"received\": " << stats.nTotalReceivedPackets << ", \"sent\": " << stats.nTotalSentPackets
              << ", \"dropped\": " << stats.nTotalDroppedPackets << ", \"marked\": " << stats.nTotalMarkedPackets
              << ", \"left\": " << disc->GetNPackets() << "}\n";
    Simulator::Destroy();
    return 0;
}
