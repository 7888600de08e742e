/* What integrations/ns3/weir-queue-disc.cc tells of packets of NQB with ECT(1). Of ns-3 there is what that part of it
 * takes. */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <weir.h>

struct Ipv4Address
{
    uint32_t Get() const { return 4; }
};

struct Ipv6Address
{
};

struct Ipv6AddressHash
{
    std::size_t operator()(const Ipv6Address&) const { return 6; }
};

template <class Address> struct Header
{
    Address GetSource() const { return {}; }
    Address GetDestination() const { return {}; }
};

struct QueueItem
{
    enum Uint8Values
    {
        IP_DSFIELD
    };
    virtual ~QueueItem() = default;
};

struct QueueDiscItem : QueueItem
{
    uint32_t GetSize() const { return 1500; }
    uint32_t Hash(uint32_t perturbation) const { return perturbation; }
    bool GetUint8Value(Uint8Values, uint8_t& value) const
    {
        value = 0xb5;
        return true;
    }
};

struct Ipv4QueueDiscItem : QueueDiscItem
{
    Header<Ipv4Address> GetHeader() const { return {}; }
};

struct Ipv6QueueDiscItem : QueueDiscItem
{
    Header<Ipv6Address> GetHeader() const { return {}; }
};

#include "part.inc"

int main()
{
    std::printf("IPv4 %#x\nIPv6 %#x\n", Describe(Ipv4QueueDiscItem(), 0).ecn, Describe(Ipv6QueueDiscItem(), 0).ecn);
    return 0;
}
