/* The memory functions that the compiler may call. One string instruction does the work of many in an emulating KVM. */
#include "machine.h"

void *memcpy(void *to, const void *from, size_t length) {
  void *at = to;
  size_t words = length / 8, rest = length % 8;
  __asm__ volatile("rep movsq" : "+D"(at), "+S"(from), "+c"(words)::"memory");
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(rest)::"memory");
  return to;
}

void *memset(void *to, int value, size_t length) {
  void *at = to;
  size_t words = length / 8, rest = length % 8;
  u64 pattern = 0x0101010101010101ull * (u8)value;
  __asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(pattern) : "memory");
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(rest) : "a"(pattern) : "memory");
  return to;
}

int memcmp(const void *a, const void *b, size_t length) {
  const u8 *left = a, *right = b;
  for (; length > 0; length--, left++, right++)
    if (*left != *right) return *left - *right;
  return 0;
}
