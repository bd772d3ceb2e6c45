#include "interrupts.h"
#include "serial.h"

/* Intel SDM volume 3, 6.14.1 "64-Bit Mode IDT". */
struct gate {
  u16 low, selector;
  u8 stack, type;
  u16 middle;
  u32 high, zero;
} __attribute__((packed));

enum { CODE64 = 0x08, INTERRUPT_GATE = 0x8e };

static struct gate gates[256];

extern const u64 trap_entries[];
void on_interrupt(void);

static void set_gate(u64 vector, u64 handler) {
  gates[vector] = (struct gate){.low = (u16)handler,
                                .selector = CODE64,
                                .type = INTERRUPT_GATE,
                                .middle = (u16)(handler >> 16),
                                .high = (u32)(handler >> 32)};
}

/* Both monitors have the APICs where a PC has them after its reset. */
enum { LOCAL_APIC = 0xfee00000, SPURIOUS = 0xf0, APIC_ON = 0x100, SPURIOUS_VECTOR = 0xff };
enum { IO_APIC = 0xfec00000, SELECT = 0x00, WINDOW = 0x10, REDIRECTIONS = 0x10, SERIAL_LINE = 4 };
enum { FIRST_PIC_MASK = 0x21, SECOND_PIC_MASK = 0xa1 };

static void write_io_apic(u32 index, u32 value) {
  write32(IO_APIC + SELECT, index);
  write32(IO_APIC + WINDOW, value);
}

void interrupts_start(void) {
  for (const u64 *trap = trap_entries; *trap != (u64)-1; trap += 2) set_gate(trap[0], trap[1]);
  set_gate(WAKE_VECTOR, (u64)on_interrupt);
  set_gate(SPURIOUS_VECTOR, (u64)on_interrupt);
  struct {
    u16 limit;
    u64 base;
  } __attribute__((packed)) pointer = {sizeof gates - 1, (u64)gates};
  __asm__ volatile("lidt %0" ::"m"(pointer));
  out8(FIRST_PIC_MASK, 0xff);
  out8(SECOND_PIC_MASK, 0xff);
  write32(LOCAL_APIC + SPURIOUS, APIC_ON | SPURIOUS_VECTOR);
  /* Edge triggered, active high, to APIC id 0 (82093AA data sheet, 3.2.4). */
  write_io_apic(REDIRECTIONS + 2 * SERIAL_LINE + 1, 0);
  write_io_apic(REDIRECTIONS + 2 * SERIAL_LINE, WAKE_VECTOR);
}

/* Called from entry.S. */
void report_trap(u64 vector, u64 code, u64 at, u64 address) {
  put("bare guest failed: trap ");
  put_number(vector);
  put(" code ");
  put_hex(code, 8);
  put(" at ");
  put_hex(at, 8);
  put(" address ");
  put_hex(address, 16);
  put("\r\n");
}
