/* Random numbers from the host. */
#ifndef ENTROPY_H
#define ENTROPY_H

#include "machine.h"

bool entropy_start(void);

/* Fills at most 64 bytes; returns how many the device gave. */
u32 entropy_fill(void *to, u32 length);

#endif
