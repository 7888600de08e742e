/* Two downloads of TCP through a bottleneck of 10 Mbit/s whose queue is steered GSP, in ns-3.
 *
 *   c++ queue.cc weir-queue-disc.cc $(pkg-config --cflags --libs weir) -lns3-applications -lns3-point-to-point ... -o queue && ./queue
 */
#include "weir-queue-disc.h"

#include "ns3/applications-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>

using namespace ns3;

static double longest = 0;

static void
Waited(Time sojourn)
{
    longest = std::max(longest, sojourn.GetSeconds() * 1e3);
}

int
main()
{
    NodeContainer nodes(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Mbps"));
    link.SetChannelAttribute("Delay", StringValue("20ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p")); // what waits, waits below
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);

    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::WeirQueueDisc",
                             "Config",
                             StringValue("rate = '10Mbit/s'\nbuffer = '200ms'\naqm = { name = 'gsp' }\n"
                                         "policy = { utilization_low = '99%', target_max = '30ms' }"));
    auto disc = DynamicCast<WeirQueueDisc>(control.Install(devices.Get(0)).Get(0));
    disc->TraceConnectWithoutContext("SojournTime", MakeCallback(&Waited));

    Ipv4InterfaceContainer addresses = Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices);
    for (uint16_t port : {5001, 5002})
    {
        InetSocketAddress to(addresses.GetAddress(1), port);
        BulkSendHelper("ns3::TcpSocketFactory", to).Install(nodes.Get(0));
        PacketSinkHelper("ns3::TcpSocketFactory", to).Install(nodes.Get(1));
    }
    Simulator::Stop(Seconds(30));
    Simulator::Run();
    const weir_stats stats = disc->GetAccount();
    std::printf("%.2f Mbit/s, %lu discarded, set point %.1f ms after %lu moves, longest delay %.1f ms\n",
                stats.dequeued_bytes * 8e-6 / 30, stats.dropped_in + stats.dropped_out, stats.setpoint_ns / 1e6, stats.moves, longest);
    Simulator::Destroy();
    return stats.dequeued > 1000 ? 0 : 1;
}
