/* The guest's agent: a few commands of QEMU's (docs/interop/qemu-ga-ref), one line of JSON each. */
#ifndef AGENT_H
#define AGENT_H

#include "machine.h"

enum { AGENT_PORT = 1024, AGENT_LINE_BYTES = 512 };

/* Writes the answer to one line, and returns its length; `answer` has room for AGENT_LINE_BYTES. */
u32 agent_answer(const char *line, u32 length, char *answer);

/* The time that the agent was told last, in nanoseconds since 1970; 0 if never. */
extern u64 agent_time;

/* Whether writes to the disk have to wait for a thaw. */
extern bool agent_is_frozen;

#endif
