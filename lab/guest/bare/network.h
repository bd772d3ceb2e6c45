/* The virtio network device. */
#ifndef NETWORK_H
#define NETWORK_H

#include "machine.h"

bool network_start(const u8 ipv4[4]);

/* Answers the frames that have come. Returns whether there were any. */
bool network_serve(void);

#endif
