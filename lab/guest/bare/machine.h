/* Instructions and registers that C has no words for, and the memory functions that the compiler may call. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;

static inline void out8(u16 port, u8 value) { __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port)); }

static inline u8 in8(u16 port) {
  u8 value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

/* Device memory is read and written with exactly these widths (virtio 1.2, 4.1.3.1). */
static inline u8 read8(u64 at) { return *(volatile u8 *)at; }
static inline u16 read16(u64 at) { return *(volatile u16 *)at; }
static inline u32 read32(u64 at) { return *(volatile u32 *)at; }
static inline void write8(u64 at, u8 value) { *(volatile u8 *)at = value; }
static inline void write16(u64 at, u16 value) { *(volatile u16 *)at = value; }
static inline void write32(u64 at, u32 value) { *(volatile u32 *)at = value; }

/* Orders memory for the compiler. The processor keeps the order of stores (Intel SDM volume 3, 8.2.2). */
static inline void barrier(void) { __asm__ volatile("" ::: "memory"); }

static inline u64 time_stamp(void) {
  u32 low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (u64)high << 32 | low;
}

static inline u16 swap16(u16 value) { return __builtin_bswap16(value); }
static inline u32 swap32(u32 value) { return __builtin_bswap32(value); }

void *memcpy(void *to, const void *from, size_t length);
void *memset(void *to, int value, size_t length);
int memcmp(const void *a, const void *b, size_t length);

/* entry.S */
void wait_for_interrupt(void);
_Noreturn void stop(void);

/* main.c */
_Noreturn void reboot(void);

#endif
