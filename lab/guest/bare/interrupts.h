/* Interrupts: they only end a wait. What there is to do is seen in the rings and in the serial port. */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#include "machine.h"

/* The vector of all interrupts, above those of traps (Intel SDM volume 3, 6.2). */
enum { WAKE_VECTOR = 0x40 };

/* Where a device writes to interrupt this processor, APIC id 0 (Intel SDM volume 3, 10.11.1). */
enum { MESSAGE_ADDRESS = 0xfee00000 };

void interrupts_start(void);

#endif
