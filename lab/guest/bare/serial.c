#include "serial.h"

/* A 16550 UART (PC16550D data sheet, section 8). */
enum { PORT = 0x3f8, DATA = 0, INTERRUPTS = 1, FIFO = 2, MODEM = 4, LINE_STATUS = 5 };
enum { RECEIVED_INTERRUPT = 1, FIFO_ON = 1, HAS_DATA = 0x01, CAN_SEND = 0x20 };
/* DTR, RTS and OUT2, which lets the interrupt through on a PC. */
enum { MODEM_READY = 0x0b };

void serial_start(void) {
  out8(PORT + FIFO, FIFO_ON);
  out8(PORT + MODEM, MODEM_READY);
  out8(PORT + INTERRUPTS, RECEIVED_INTERRUPT);
}

int serial_read(void) { return (in8(PORT + LINE_STATUS) & HAS_DATA) ? in8(PORT + DATA) : -1; }

void put_char(char character) {
  while (!(in8(PORT + LINE_STATUS) & CAN_SEND)) {}
  out8(PORT + DATA, (u8)character);
}

void put(const char *text) {
  for (; *text != 0; text++) put_char(*text);
}

void put_bytes(const char *text, size_t length) {
  for (; length > 0; length--) put_char(*text++);
}

void put_number(u64 value) {
  char digits[20];
  int count = 0;
  do digits[count++] = '0' + value % 10;
  while ((value /= 10) != 0);
  while (count > 0) put_char(digits[--count]);
}

void put_hex(u64 value, int digits) {
  while (digits-- > 0) put_char("0123456789abcdef"[value >> (digits * 4) & 15]);
}

void put_hex_bytes(const u8 *bytes, size_t length) {
  for (; length > 0; length--) put_hex(*bytes++, 2);
}
