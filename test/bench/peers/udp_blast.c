/*
 * As many small UDP packets as one core can hand to an interface.
 *
 *     udp_blast <interface> <destination MAC> <source IP> <destination IP>
 *               <seconds> <packets> [frame bytes] [flows] [packets per second]
 *
 * Complete frames are written to an AF_PACKET socket, many to a system call and
 * past the queueing discipline. The run ends at the first of its two bounds,
 * time and packets. Frame bytes count as on the wire of Ethernet, the check
 * sequence included: 64 is 60 bytes handed to the interface, the smallest frame.
 * Flows differ in their source port. A rate of 0 (the default) is no limit.
 *
 * Meant for a network namespace that was made for the test.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64
#define MAX_FRAME 1514
#define PORT 5001

static uint64_t
nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint16_t
ip_checksum(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static int
fail(const char *what)
{
	fprintf(stderr, "udp_blast: %s: %s\n", what, strerror(errno));
	return 1;
}

int
main(int argc, char **argv)
{
	static uint8_t frames[BATCH][MAX_FRAME];
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	struct ifreq request;
	struct in_addr from_ip, to_ip;
	unsigned int mac[6], flows = 1;
	uint64_t packets, sent = 0, refused = 0, calls = 0, begin, end, now;
	double seconds, rate = 0.0;
	size_t length = 60;
	int fd, one = 1;

	if (argc < 7 || argc > 10) {
		fprintf(stderr, "usage: udp_blast <interface> <destination MAC> <source IP> "
				"<destination IP> <seconds> <packets> [frame bytes] [flows] "
				"[packets per second]\n");
		return 2;
	}
	if (strlen(argv[1]) >= IFNAMSIZ ||
	    sscanf(argv[2], "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5]) != 6 ||
	    inet_aton(argv[3], &from_ip) == 0 || inet_aton(argv[4], &to_ip) == 0) {
		fprintf(stderr, "udp_blast: an address is not one\n");
		return 2;
	}
	seconds = atof(argv[5]);
	packets = strtoull(argv[6], NULL, 10);
	if (argc > 7)
		length = strtoul(argv[7], NULL, 10) - 4;
	if (argc > 8)
		flows = (unsigned int)strtoul(argv[8], NULL, 10);
	if (argc > 9)
		rate = atof(argv[9]);
	if (!(seconds > 0.0 && seconds <= 600.0) || packets == 0 || length < 60 ||
	    length > MAX_FRAME || flows == 0 || flows > 1024 || rate < 0.0) {
		fprintf(stderr, "udp_blast: out of range\n");
		return 2;
	}

	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0)
		return fail("socket");
	memset(&request, 0, sizeof(request));
	strcpy(request.ifr_name, argv[1]);
	if (ioctl(fd, SIOCGIFINDEX, &request) < 0)
		return fail(argv[1]);
	to.sll_ifindex = request.ifr_ifindex;
	if (ioctl(fd, SIOCGIFHWADDR, &request) < 0)
		return fail(argv[1]);
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return fail("bind");
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) < 0)
		return fail("PACKET_QDISC_BYPASS");

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		struct ether_header *eth = (struct ether_header *)frames[i];
		struct iphdr *ip = (struct iphdr *)(eth + 1);
		struct udphdr *udp = (struct udphdr *)(ip + 1);

		for (int k = 0; k < 6; k++)
			eth->ether_dhost[k] = (uint8_t)mac[k];
		memcpy(eth->ether_shost, request.ifr_hwaddr.sa_data, 6);
		eth->ether_type = htons(ETHERTYPE_IP);
		ip->version = 4;
		ip->ihl = 5;
		ip->tot_len = htons((uint16_t)(length - sizeof(*eth)));
		ip->frag_off = htons(0x4000);
		ip->ttl = 64;
		ip->protocol = IPPROTO_UDP;
		ip->saddr = from_ip.s_addr;
		ip->daddr = to_ip.s_addr;
		ip->check = ip_checksum(ip, sizeof(*ip));
		udp->source = htons((uint16_t)(20000 + (unsigned int)i % flows));
		udp->dest = htons(PORT);
		/* A UDP checksum of zero: none. */
		udp->len = htons((uint16_t)(length - sizeof(*eth) - sizeof(*ip)));
		parts[i].iov_base = frames[i];
		parts[i].iov_len = length;
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}

	begin = nanoseconds();
	end = begin + (uint64_t)(seconds * 1e9);
	now = begin;
	while (sent < packets && now < end) {
		unsigned int want = BATCH;
		int done;

		if (packets - sent < want)
			want = (unsigned int)(packets - sent);
		if (rate > 0.0 && (double)(now - begin) * rate * 1e-9 < (double)sent) {
			now = nanoseconds();
			continue;
		}
		done = sendmmsg(fd, messages, want, 0);
		calls++;
		if (done > 0)
			sent += (uint64_t)done;
		else if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR)
			refused++;
		else
			return fail("sendmmsg");
		now = nanoseconds();
	}
	close(fd);
	printf("{\"sent\": %" PRIu64 ", \"refused_calls\": %" PRIu64 ", \"calls\": %" PRIu64
	       ", \"frame_bytes\": %zu, \"seconds\": %.6f, \"packets_per_second\": %.0f}\n",
	       sent, refused, calls, length + 4, (double)(now - begin) * 1e-9,
	       (double)sent / ((double)(now - begin) * 1e-9));
	return 0;
}
