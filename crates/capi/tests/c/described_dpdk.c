/* What integrations/dpdk/switch.c tells of packets of NQB with ECT(1), and how it marks them. Of DPDK there is what
 * that part of it takes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <weir.h>

enum {
    LINE_OVERHEAD = 24,
    RTE_ETHER_TYPE_IPV4 = 0x0800,
    RTE_ETHER_TYPE_IPV6 = 0x86dd,
    RTE_ETHER_TYPE_VLAN = 0x8100,
    RTE_ETHER_TYPE_QINQ = 0x88a8,
    RTE_IPV4_HDR_OFFSET_MASK = 0x1fff,
    RTE_IPV4_HDR_MF_FLAG = 0x2000,
};

struct rte_mbuf {
    uint8_t *data;
    uint32_t length;
};

struct rte_ether_hdr {
    uint8_t receiver[6], sender[6];
    uint16_t ether_type;
} __attribute__((packed));

struct rte_vlan_hdr {
    uint16_t vlan_tci, eth_proto;
} __attribute__((packed));

struct rte_ipv4_hdr {
    uint8_t version_ihl, type_of_service;
    uint16_t total_length, packet_id, fragment_offset;
    uint8_t time_to_live, next_proto_id;
    uint16_t hdr_checksum;
    uint32_t src_addr, dst_addr;
} __attribute__((packed));

struct rte_ipv6_hdr {
    uint32_t vtc_flow;
    uint16_t payload_len;
    uint8_t proto, hop_limits, src_addr[16], dst_addr[16];
} __attribute__((packed));

#define rte_pktmbuf_mtod_offset(m, type, at) ((type)((m)->data + (at)))
#define rte_pktmbuf_mtod(m, type) rte_pktmbuf_mtod_offset(m, type, 0)
#define rte_pktmbuf_data_len(m) ((m)->length)
#define rte_pktmbuf_pkt_len(m) ((m)->length)
#define rte_cpu_to_be_16(x) htons(x)
#define rte_cpu_to_be_32(x) htonl(x)
#define rte_be_to_cpu_32(x) ntohl(x)
#define rte_ipv4_hdr_len(v4) (((v4)->version_ihl & 15u) * 4)

static uint32_t rte_jhash_3words(uint32_t a, uint32_t b, uint32_t c, uint32_t seed)
{
    return a ^ b ^ c ^ seed;
}

static uint32_t rte_jhash_1word(uint32_t a, uint32_t seed)
{
    return a ^ seed;
}

static uint32_t rte_jhash(const void *key, uint32_t length, uint32_t seed)
{
    return *(const uint8_t *)key ^ length ^ seed;
}

#include "part.inc"

static void tell(const char *kind, struct rte_mbuf *m)
{
    struct weir_packet before, after;
    describe(m, &before);
    mark(m);
    describe(m, &after);
    printf("%s %#x, marked %#x\n", kind, before.ecn, after.ecn);
}

int main(void)
{
    uint8_t frame[64] = {0};
    struct rte_mbuf m = {frame, sizeof frame};
    memcpy(frame + 12, "\x08\x00\x45\xb5", 4);
    tell("IPv4", &m);
    memcpy(frame + 12, "\x86\xdd\x6b\x50", 4);
    tell("IPv6", &m);
    return 0;
}
