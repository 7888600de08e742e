// Writes the kernel's netlink messages about queueing disciplines and classes as hexadecimal lines, as they arrived.
//   record qdisc|class INTERFACE     what a dump says of an interface
//   record watch SECONDS             what the kernel tells of changes meanwhile
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 18];

static int opened(unsigned groups)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		perror("netlink");
		exit(1);
	}
	return fd;
}

static void written(const struct nlmsghdr *message)
{
	const unsigned char *byte = (const unsigned char *)message;
	for (unsigned i = 0; i < message->nlmsg_len; i++)
		printf("%02x", byte[i]);
	printf("\n");
	fflush(stdout);
}

// Whether the dump goes on.
static int received(int fd)
{
	ssize_t length = recv(fd, buffer, sizeof buffer, 0);
	if (length <= 0)
		return 0;
	unsigned left = length;
	for (struct nlmsghdr *m = (struct nlmsghdr *)buffer; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
		if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR)
			return 0;
		written(m);
	}
	return 1;
}

static int dump(const char *what, const char *interface)
{
	struct {
		struct nlmsghdr head;
		struct tcmsg tc;
	} request = {
		.head = {sizeof request, strcmp(what, "class") ? RTM_GETQDISC : RTM_GETTCLASS, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
		.tc = {.tcm_ifindex = if_nametoindex(interface)},
	};
	int fd = opened(0);
	if (request.tc.tcm_ifindex == 0 || send(fd, &request, sizeof request, 0) < 0) {
		perror(interface);
		return 1;
	}
	while (received(fd))
		;
	return 0;
}

static int watch(double seconds)
{
	int fd = opened(RTMGRP_TC);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		double left = end - (now.tv_sec + now.tv_nsec / 1e9);
		if (left <= 0)
			return 0;
		struct timeval wait = {0, left < 0.1 ? 1 + (long)(left * 1e6) : 100000};
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
		received(fd);
	}
}

int main(int count, char **words)
{
	if (count == 3 && !strcmp(words[1], "watch"))
		return watch(atof(words[2]));
	if (count == 3)
		return dump(words[1], words[2]);
	fprintf(stderr, "record qdisc|class INTERFACE | watch SECONDS\n");
	return 2;
}
