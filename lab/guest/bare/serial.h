/* The console: the first serial port, and text on it. */
#ifndef SERIAL_H
#define SERIAL_H

#include "machine.h"

void serial_start(void);

/* Returns the next character that was typed, or -1. */
int serial_read(void);

void put_char(char character);
void put(const char *text);
void put_bytes(const char *text, size_t length);
void put_number(u64 value);
void put_hex(u64 value, int digits);
void put_hex_bytes(const u8 *bytes, size_t length);

#endif
