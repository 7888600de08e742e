/*
 * What the programs beside which Weir is measured have in common. Include it
 * first: it says which interfaces of the C library are wanted.
 */
#ifndef PEER_H
#define PEER_H

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The compiler must not see that packets are not looked at. */
#define SETTLE() __asm__ volatile("" ::: "memory")

static inline uint64_t
nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether a text is a whole number. */
static inline int
number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

#endif
