/* Virtio sockets: streams that the host opens to the guest's agent. */
#ifndef VSOCK_H
#define VSOCK_H

#include "machine.h"

bool vsock_start(void);

/* Answers the packets that have come. Returns whether there were any. */
bool vsock_serve(void);

#endif
