// What runs in the guest of tools/kernel-witness besides the kernel: sources and sinks of traffic, and a watch that
// measures a queue from outside, packet by packet. Linked statically; a mistake ends it with a message.
//
//   probe sink PORT                                         takes in everything, TCP and UDP
//   probe tcp ADDRESS PORT FLOWS CONGESTION SECONDS         bulk flows, started 5 ms apart
//   probe udp ADDRESS PORT PAYLOAD GAP_NS SECONDS           a datagram each GAP_NS, whatever happens
//   probe watch IN OUT HANDLE WARMUP SECONDS                the queue between two interfaces; HANDLE is its qdisc's
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/pkt_sched.h>
#include <linux/gen_stats.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define FLOWS_MAX 64

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static int64_t must(int64_t result, const char *what) {
	if (result < 0) fail(what);
	return result;
}

static int64_t now_ns(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

static struct sockaddr_in address(const char *ip, int port) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, ip, &to.sin_addr) != 1) fail(ip);
	return to;
}

static int bound(int type, int port) {
	struct sockaddr_in here = address("0.0.0.0", port);
	int s = must(socket(AF_INET, type, 0), "socket");
	must(bind(s, (struct sockaddr *)&here, sizeof here), "bind");
	return s;
}

// ---- traffic

static int sink(int port) {
	static char bytes[1 << 20];
	struct pollfd polls[FLOWS_MAX + 2] = {{bound(SOCK_STREAM, port), POLLIN}, {bound(SOCK_DGRAM, port), POLLIN}};
	int count = 2;
	must(listen(polls[0].fd, FLOWS_MAX), "listen");
	for (;;) {
		must(poll(polls, count, -1), "poll");
		for (int i = 1; i < count; i++)
			if (polls[i].revents && recv(polls[i].fd, bytes, sizeof bytes, 0) <= 0) polls[i].fd = -1;
		if (polls[0].revents && count < FLOWS_MAX + 2)
			polls[count++] = (struct pollfd){must(accept(polls[0].fd, 0, 0), "accept"), POLLIN};
	}
}

static int connected(struct sockaddr_in to, const char *congestion) {
	int s = must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
	must(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, congestion, strlen(congestion)), congestion);
	if (connect(s, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) fail("connect");
	return s;
}

static int tcp(struct sockaddr_in to, int flows, const char *congestion, int64_t seconds) {
	static char bytes[1 << 16];
	struct pollfd polls[FLOWS_MAX];
	if (flows > FLOWS_MAX) return 2;
	int64_t end = now_ns(CLOCK_MONOTONIC) + seconds * NS;
	for (int i = 0; i < flows; i++) {
		polls[i] = (struct pollfd){connected(to, congestion), POLLOUT};
		usleep(5000);
	}
	while (now_ns(CLOCK_MONOTONIC) < end) {
		must(poll(polls, flows, 100), "poll");
		for (int i = 0; i < flows; i++) {
			if (!polls[i].revents) continue;
			if (send(polls[i].fd, bytes, sizeof bytes, MSG_NOSIGNAL) < 0 && errno != EAGAIN) fail("send");
		}
	}
	return 0;
}

static int udp(struct sockaddr_in to, int payload, int64_t gap, int64_t seconds) {
	static char bytes[1 << 16];
	int s = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
	must(connect(s, (struct sockaddr *)&to, sizeof to), "connect");
	int64_t next = now_ns(CLOCK_MONOTONIC), end = next + seconds * NS;
	for (; next < end; next += gap) {
		struct timespec at = {next / NS, next % NS};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
		send(s, bytes, payload, 0);
	}
	return 0;
}

// ---- the watch

// Packets that entered and may still come out: of each flow, by the identification of IP.
struct entry {
	uint8_t ecn, used;
	int64_t at;
};
static struct entry waiting[FLOWS_MAX][1 << 16];
static uint16_t ports[FLOWS_MAX];

static struct {
	int64_t start, from, to;
	uint64_t in, out, out_bytes, marks;  // between `from` and `to`
	uint64_t all_in, all_out, unmatched;
	uint32_t *delays_us;
	size_t count, room;
	double delay_sum_us;
} seen;

struct packet {
	uint16_t port, id;
	uint8_t ecn;
	int length;
	int64_t at;
};

static int tap(const char *interface) {
	int s = must(socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)), "packet socket");
	int on = 1, room = 64 << 20;
	struct sockaddr_ll here = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	here.sll_ifindex = if_nametoindex(interface);
	if (!here.sll_ifindex) fail(interface);
	must(bind(s, (struct sockaddr *)&here, sizeof here), "bind");
	must(setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), "timestamps");
	must(setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room), "receive buffer");
	return s;
}

// The next packet of the wanted direction; 0 when there is none.
static int next_packet(int s, int direction, struct packet *p) {
	uint8_t head[64], control[256];
	struct sockaddr_ll from;
	for (;;) {
		struct iovec data = {head, sizeof head};
		struct msghdr m = {&from, sizeof from, &data, 1, control, sizeof control, 0};
		int length = recvmsg(s, &m, MSG_DONTWAIT | MSG_TRUNC);
		if (length < 0 && errno == EAGAIN) return 0;
		must(length, "recvmsg");
		int outgoing = from.sll_pkttype == PACKET_OUTGOING;
		if (outgoing != direction || length < 28 || from.sll_protocol != htons(ETH_P_IP)) continue;
		struct timespec *t = (void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
		// IP has no options here, so the source port follows 20 bytes.
		p->port = head[20] << 8 | head[21];
		p->id = head[4] << 8 | head[5];
		p->ecn = head[1] & 3;
		p->length = length;
		p->at = t->tv_sec * NS + t->tv_nsec;
		return 1;
	}
}

static struct entry *slot(const struct packet *p) {
	int flow = 0;
	while (flow < FLOWS_MAX && ports[flow] && ports[flow] != p->port) flow++;
	if (flow == FLOWS_MAX) {
		fprintf(stderr, "more flows than %d\n", FLOWS_MAX);
		exit(1);
	}
	ports[flow] = p->port;
	return &waiting[flow][p->id];
}

static int measured(int64_t at) {
	return at >= seen.from && at < seen.to;
}

static void entered(const struct packet *p) {
	*slot(p) = (struct entry){p->ecn, 1, p->at};
	seen.all_in++;
	seen.in += measured(p->at);
}

static void left(int taps_in, const struct packet *p) {
	struct entry *e = slot(p);
	struct packet more;
	seen.all_out++;
	// It may have entered after the last look.
	while (!e->used && next_packet(taps_in, 0, &more)) entered(&more);
	if (!e->used) {
		seen.unmatched++;
		return;
	}
	e->used = 0;
	if (!measured(p->at)) return;
	seen.out++;
	seen.out_bytes += p->length + ETH_HLEN;
	seen.marks += p->ecn == 3 && e->ecn != 3;
	if (seen.count == seen.room) {
		seen.room = seen.room ? 2 * seen.room : 1 << 16;
		seen.delays_us = realloc(seen.delays_us, seen.room * sizeof *seen.delays_us);
		if (!seen.delays_us) fail("memory");
	}
	double us = (p->at - e->at) / 1e3;
	seen.delays_us[seen.count++] = us < 0 ? 0 : us;
	seen.delay_sum_us += us;
}

// ---- counters of the qdisc, over rtnetlink

struct counters {
	uint32_t drops, waiting, backlog;
	double probability;  // of PIE
};

static void read_stats(struct rtattr *stats, struct counters *c, int is_pie) {
	int length = RTA_PAYLOAD(stats);
	for (struct rtattr *a = RTA_DATA(stats); RTA_OK(a, length); a = RTA_NEXT(a, length)) {
		if (a->rta_type == TCA_STATS_QUEUE) {
			struct gnet_stats_queue *q = RTA_DATA(a);
			*c = (struct counters){q->drops, q->qlen, q->backlog, c->probability};
		} else if (a->rta_type == TCA_STATS_APP && is_pie) {
			struct tc_pie_xstats *x = RTA_DATA(a);
			c->probability = (double)x->prob / (double)UINT64_MAX;
		}
	}
}

static void read_qdisc(struct nlmsghdr *h, int interface, uint32_t handle, struct counters *c) {
	struct tcmsg *t = NLMSG_DATA(h);
	if (t->tcm_ifindex != interface || t->tcm_handle != handle) return;
	int length = TCA_PAYLOAD(h), is_pie = 0;
	for (struct rtattr *a = TCA_RTA(t); RTA_OK(a, length); a = RTA_NEXT(a, length)) {
		if (a->rta_type == TCA_KIND) is_pie = !strcmp(RTA_DATA(a), "pie");
		if (a->rta_type == TCA_STATS2) read_stats(a, c, is_pie);
	}
}

static struct counters counters_of(int netlink, int interface, uint32_t handle) {
	static char answer[1 << 16] __attribute__((aligned(8)));
	struct counters c = {0};
	struct {
		struct nlmsghdr h;
		struct tcmsg t;
	} ask = {{sizeof ask, RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP}, {.tcm_ifindex = interface}};
	must(send(netlink, &ask, sizeof ask, 0), "netlink");
	for (;;) {
		int length = must(recv(netlink, answer, sizeof answer, 0), "netlink");
		for (struct nlmsghdr *h = (void *)answer; NLMSG_OK(h, length); h = NLMSG_NEXT(h, length)) {
			if (h->nlmsg_type == NLMSG_DONE) return c;
			if (h->nlmsg_type == RTM_NEWQDISC) read_qdisc(h, interface, handle, &c);
		}
	}
}

static int by_size(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static double percentile(double share) {
	return seen.count ? seen.delays_us[(size_t)(share * (seen.count - 1))] / 1e3 : 0;
}

static void report(const struct counters *first, const struct counters *last) {
	qsort(seen.delays_us, seen.count, sizeof *seen.delays_us, by_size);
	printf("],\"in\":%lu,\"out\":%lu,\"out_bytes\":%lu,\"marks\":%lu,\"drops\":%u,", seen.in, seen.out,
	       seen.out_bytes, seen.marks, last->drops - first->drops);
	printf("\"unmatched\":%lu,\"lost_outright\":%ld,", seen.unmatched,
	       (long)(seen.all_in - seen.all_out) - last->drops - last->waiting);
	printf("\"delay_ms\":{\"mean\":%.4f,\"p50\":%.4f,\"p95\":%.4f,\"p99\":%.4f}}\n",
	       seen.count ? seen.delay_sum_us / seen.count / 1e3 : 0, percentile(0.5), percentile(0.95),
	       percentile(0.99));
}

static int watch(const char *from, const char *to, uint32_t handle, int warmup, int seconds) {
	int in = tap(from), out = tap(to), interface = if_nametoindex(to);
	int netlink = must(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), "netlink");
	struct counters first = {0}, last = {0};
	struct packet p;
	seen.start = now_ns(CLOCK_REALTIME);
	seen.from = seen.start + warmup * NS;
	seen.to = seen.start + seconds * NS;
	// A row for each half second: drops, packets waiting, bytes waiting, probability.
	printf("{\"samples\":[");
	for (int row = 0; row <= 2 * seconds;) {
		// Packets carry the time; to look now and then takes less of the processor than to be called for each.
		usleep(10000);
		while (next_packet(in, 0, &p)) entered(&p);
		while (next_packet(out, 1, &p)) left(in, &p);
		if (now_ns(CLOCK_REALTIME) < seen.start + row * NS / 2) continue;
		last = counters_of(netlink, interface, handle);
		if (row == 2 * warmup) first = last;
		printf("%s[%u,%u,%u,%.6f]", row ? "," : "", last.drops, last.waiting, last.backlog, last.probability);
		row++;
	}
	report(&first, &last);
	return 0;
}

int main(int n, char **a) {
	if (n == 3 && !strcmp(a[1], "sink")) return sink(atoi(a[2]));
	if (n == 7 && !strcmp(a[1], "tcp")) return tcp(address(a[2], atoi(a[3])), atoi(a[4]), a[5], atoi(a[6]));
	if (n == 7 && !strcmp(a[1], "udp"))
		return udp(address(a[2], atoi(a[3])), atoi(a[4]), atoll(a[5]), atoi(a[6]));
	if (n == 7 && !strcmp(a[1], "watch"))
		return watch(a[2], a[3], strtoul(a[4], 0, 16), atoi(a[5]), atoi(a[6]));
	fprintf(stderr, "probe: the head of probe.c says how it is used\n");
	return 2;
}
