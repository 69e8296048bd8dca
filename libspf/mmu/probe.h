/* SPDX-License-Identifier: MIT */
/* Opening a userfaultfd through whichever gate lets us. */
#ifndef SPF_MMU_PROBE_H
#define SPF_MMU_PROBE_H

#include <spf/probe.h>

#include <stdbool.h>

/* A new descriptor, before its handshake; *gate: the one that opened.  Or -errno. */
int spf__uffd_open(bool nonblock, int *gate);

/* Features of this kernel less the masked ones.  0 or -errno. */
int spf__uffd_features(uint64_t *usable);

#endif
