/* The commands on the console; README.md lists them. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include "machine.h"

/* Makes the number of this life, which a restore does not change, and says that the guest is ready. */
void console_start(void);

/* Reads what was typed, and runs each line that is complete. */
void console_serve(void);

#endif
