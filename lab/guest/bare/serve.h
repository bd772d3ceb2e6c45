/* What the guest does for others while it waits for something of its own. */
#ifndef SERVE_H
#define SERVE_H

/* Answers the packets that have come; without any it waits for an interrupt. */
void serve_or_wait(void);

#endif
