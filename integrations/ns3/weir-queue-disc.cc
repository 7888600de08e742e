#include "weir-queue-disc.h"

#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/ipv6-queue-disc-item.h"
#include "ns3/log.h"
#include "ns3/queue.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <cstring>
#include <limits>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("WeirQueueDisc");
NS_OBJECT_ENSURE_REGISTERED(WeirQueueDisc);

/* Where the packets are; in which order they leave is the library's. Places are the cookies by which it knows them. */
class WeirStore : public Queue<QueueDiscItem>
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::WeirStore").SetParent<Queue<QueueDiscItem>>().SetGroupName("TrafficControl");
        return id;
    }

    WeirStore()
    {
        // How many there may be, the library decides.
        SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, std::numeric_limits<uint32_t>::max()));
    }

    /* A place for the next packet. */
    uint64_t Free()
    {
        if (m_free.empty())
        {
            m_free.push_back(m_places.size());
            m_places.emplace_back();
        }
        return m_free.back();
    }

    /* Puts a packet into the place that Free told. */
    void Put(Ptr<QueueDiscItem> item)
    {
        Iterator at;
        DoEnqueue(GetContainer().end(), item, at);
        m_places[m_free.back()] = at;
        m_free.pop_back();
    }

    /* Takes a packet out of its place. */
    Ptr<QueueDiscItem> Take(uint64_t place)
    {
        m_free.push_back(place);
        return DoDequeue(m_places[place]);
    }

    /* Of the interface; nobody but the queue disc has the queue. */
    bool Enqueue(Ptr<QueueDiscItem>) override
    {
        return false;
    }

    Ptr<QueueDiscItem> Dequeue() override
    {
        return nullptr;
    }

    Ptr<QueueDiscItem> Remove() override
    {
        return GetContainer().empty() ? nullptr : DoRemove(GetContainer().begin());
    }

    Ptr<const QueueDiscItem> Peek() const override
    {
        return nullptr;
    }

  private:
    std::vector<ConstIterator> m_places;
    std::vector<uint64_t> m_free;
};

NS_OBJECT_ENSURE_REGISTERED(WeirStore);

TypeId
WeirQueueDisc::GetTypeId()
{
    static TypeId id =
        TypeId("ns3::WeirQueueDisc")
            .SetParent<QueueDisc>()
            .SetGroupName("TrafficControl")
            .AddConstructor<WeirQueueDisc>()
            .AddAttribute("Config",
                          "The queue, as TOML: rate, and tables queue, aqm and policy (libweir(3)).",
                          StringValue("aqm = { name = 'codel' }"),
                          MakeStringAccessor(&WeirQueueDisc::m_config),
                          MakeStringChecker())
            .AddAttribute("Seed",
                          "For dice and hashes; 0 takes one that follows from ns-3's seed and run.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&WeirQueueDisc::m_seed),
                          MakeUintegerChecker<uint64_t>());
    return id;
}

WeirQueueDisc::WeirQueueDisc()
    : QueueDisc(QueueDiscSizePolicy::NO_LIMITS)
{
}

WeirQueueDisc::~WeirQueueDisc()
{
    End();
}

void
WeirQueueDisc::End()
{
    weir_queue_destroy(&m_queue);
}

void
WeirQueueDisc::DoDispose()
{
    m_wake.Cancel();
    End();
    m_store = nullptr;
    QueueDisc::DoDispose();
}

bool
WeirQueueDisc::CheckConfig()
{
    if (GetNQueueDiscClasses() > 0 || GetNPacketFilters() > 0 || GetNInternalQueues() > 0)
    {
        NS_LOG_ERROR("WeirQueueDisc has no classes, filters or queues beside its own");
        return false;
    }
    m_store = CreateObject<WeirStore>();
    AddInternalQueue(m_store);
    char message[1000] = "";
    weir_options options = WEIR_OPTIONS_INIT;
    options.config = m_config.c_str();
    options.start_ns = Simulator::Now().GetNanoSeconds();
    options.seed = m_seed ? m_seed : RngSeedManager::GetSeed() * 1000003ULL + RngSeedManager::GetRun();
    options.message = message;
    options.message_size = sizeof message;
    if (weir_queue_create(&options, &m_queue) != WEIR_OK)
    {
        NS_FATAL_ERROR("WeirQueueDisc, attribute Config: " << message);
    }
    m_perturbation = static_cast<uint32_t>(options.seed);
    return true;
}

void
WeirQueueDisc::InitializeParams()
{
}

/* Hashes of an address; equal addresses have equal ones. */
static uint32_t
HashOf(const Ipv4Address& address)
{
    return address.Get();
}

static uint32_t
HashOf(const Ipv6Address& address)
{
    return Ipv6AddressHash()(address);
}

static weir_packet
Describe(const QueueDiscItem& item, uint32_t perturbation)
{
    weir_packet packet{};
    packet.length = item.GetSize();
    packet.flow = item.Hash(perturbation);
    uint8_t field = 0;
    if (item.GetUint8Value(QueueItem::IP_DSFIELD, field))
    {
        packet.ecn = field;
    }
    if (auto v4 = dynamic_cast<const Ipv4QueueDiscItem*>(&item))
    {
        packet.sender = HashOf(v4->GetHeader().GetSource());
        packet.receiver = HashOf(v4->GetHeader().GetDestination());
    }
    else if (auto v6 = dynamic_cast<const Ipv6QueueDiscItem*>(&item))
    {
        packet.sender = HashOf(v6->GetHeader().GetSource());
        packet.receiver = HashOf(v6->GetHeader().GetDestination());
    }
    return packet;
}

static const char*
DropReason(uint8_t verdict)
{
    switch (WEIR_CAUSE(verdict))
    {
    case WEIR_CAUSE_SET_POINT:
        return WeirQueueDisc::SET_POINT_DROP;
    case WEIR_CAUSE_CHANCE:
        return WeirQueueDisc::CHANCE_DROP;
    default:
        return WeirQueueDisc::OVERFLOW_DROP;
    }
}

bool
WeirQueueDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
    weir_packet packet = Describe(*item, m_perturbation);
    packet.cookie = m_store->Free();
    uint8_t verdict = WEIR_DROP | WEIR_CAUSE_OVERFLOW;
    // Where it is not taken, discarded packets wait to be taken out, which the next dequeue does.
    weir_queue_enqueue(m_queue, Simulator::Now().GetNanoSeconds(), &packet, 1, &verdict);
    if (WEIR_IS_DROP(verdict))
    {
        DropBeforeEnqueue(item, DropReason(verdict));
        return false;
    }
    m_store->Put(item);
    return true;
}

Ptr<QueueDiscItem>
WeirQueueDisc::DoDequeue()
{
    const uint64_t now = Simulator::Now().GetNanoSeconds();
    weir_departure gone;
    while (weir_queue_dequeue(m_queue, now, &gone, 1) == 1)
    {
        Ptr<QueueDiscItem> item = m_store->Take(gone.cookie);
        if (WEIR_IS_DROP(gone.verdict))
        {
            DropAfterDequeue(item, DropReason(gone.verdict));
            continue;
        }
        if (WEIR_IS_MARK(gone.verdict))
        {
            Mark(item, WEIR_CAUSE(gone.verdict) == WEIR_CAUSE_CHANCE ? CHANCE_MARK : SET_POINT_MARK);
        }
        return item;
    }
    // A shaped queue says when it has something; nobody else would ask then.
    uint64_t due = WEIR_NEVER;
    if (weir_queue_due(m_queue, &due) == WEIR_OK && due != WEIR_NEVER && due > now && !m_wake.IsRunning())
    {
        m_wake = Simulator::Schedule(NanoSeconds(due - now), &QueueDisc::Run, this);
    }
    return nullptr;
}

bool
WeirQueueDisc::SetPolicy(const std::string& policy, std::string& message)
{
    char text[1000] = "";
    const char* given = policy.empty() ? nullptr : policy.c_str();
    bool done = weir_queue_set_policy(m_queue, given, text, sizeof text) == WEIR_OK;
    message = text;
    return done;
}

Time
WeirQueueDisc::GetSetpoint() const
{
    uint64_t setpoint = 0;
    return weir_queue_setpoint(m_queue, &setpoint) == WEIR_OK ? NanoSeconds(setpoint) : Time(0);
}

weir_stats
WeirQueueDisc::GetAccount() const
{
    weir_stats stats{};
    stats.size = sizeof stats;
    weir_queue_stats(m_queue, &stats);
    return stats;
}

std::map<std::string, double>
WeirQueueDisc::GetGauges() const
{
    weir_gauge gauges[64];
    std::map<std::string, double> all;
    int count = weir_queue_gauges(m_queue, gauges, 64);
    for (int n = 0; n < count && n < 64; n++)
    {
        all[gauges[n].name] = gauges[n].value;
    }
    return all;
}

} // namespace ns3
