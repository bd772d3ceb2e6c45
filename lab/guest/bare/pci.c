#include "pci.h"
#include "interrupts.h"

/* PCI Local Bus 3.0, 6.1 "Configuration Space Organization". */
enum { VENDOR = 0x00, DEVICE = 0x02, COMMAND = 0x04, BARS = 0x10, CAPABILITIES = 0x34 };
enum { MEMORY_SPACE = 0x2, BUS_MASTER = 0x4, NO_LEGACY_INTERRUPT = 0x400 };
enum { BAR_COUNT = 6, BAR_IS_IO = 1, BAR_IS_64_BITS = 4 };

/*
 * QEMU's microvm has no table that says where its PCI bus is, and leaves BARs empty. These are its addresses (QEMU,
 * include/hw/i386/microvm.h, PCIE_ECAM_BASE and PCIE_MMIO_BASE).
 */
enum { MICROVM_CONFIGURATION = 0xe0000000, WINDOW = 0xc0000000 };

static u64 configuration_space;
static u64 next_free = WINDOW;

/* PCI Express 5.0, 7.2.2: each function has 4 KiB, each device 8 functions. */
pci_function pci_in_slot(u32 slot) {
  pci_function function = configuration_space + slot * 0x8000;
  return pci_vendor(function) == 0xffff ? 0 : function;
}

bool pci_start(u64 configuration) {
  configuration_space = configuration != 0 ? configuration : MICROVM_CONFIGURATION;
  return pci_in_slot(0) != 0;
}

u16 pci_vendor(pci_function function) { return read16(function + VENDOR); }
u16 pci_device(pci_function function) { return read16(function + DEVICE); }

static u32 bar_flags(pci_function function, u32 index) { return read32(function + BARS + index * 4) & 0xf; }

u64 pci_bar(pci_function function, u32 index) {
  u64 low = read32(function + BARS + index * 4);
  u64 high = (low & BAR_IS_64_BITS) ? read32(function + BARS + index * 4 + 4) : 0;
  return high << 32 | (low & ~0xfu);
}

/* PCI Local Bus 3.0, 6.2.5.1: the bits of an address that stay 0 when all are set say the size. */
static void place_bar(pci_function function, u32 index) {
  u64 at = function + BARS + index * 4;
  write32(at, 0xffffffff);
  u32 mask = read32(at) & ~0xfu;
  if (mask == 0) return;
  u64 size = ~mask + 1u;
  next_free = (next_free + size - 1) & ~(size - 1);
  write32(at, (u32)next_free);
  if (bar_flags(function, index) & BAR_IS_64_BITS) write32(at + 4, 0);
  next_free += size;
}

void pci_enable(pci_function function) {
  for (u32 index = 0; index < BAR_COUNT; index++) {
    u32 flags = bar_flags(function, index);
    if (flags & BAR_IS_IO) continue;
    if (pci_bar(function, index) == 0) place_bar(function, index);
    if (flags & BAR_IS_64_BITS) index++;
  }
  u16 command = read16(function + COMMAND);
  write16(function + COMMAND, command | MEMORY_SPACE | BUS_MASTER | NO_LEGACY_INTERRUPT);
}

u32 pci_capability(pci_function function, u8 id, u32 after) {
  u32 at = read8(function + (after == 0 ? CAPABILITIES : after + 1));
  while (at != 0 && read8(function + at) != id) at = read8(function + at + 1);
  return at;
}

/* PCI Local Bus 3.0, 6.8.2 "MSI-X Capability and Table Structures". */
enum { MSIX = 0x11, MSIX_CONTROL = 2, MSIX_TABLE = 4, MSIX_ON = 0x8000, MSIX_SIZE = 0x7ff, ENTRY_BYTES = 16 };

void pci_use_msix(pci_function function) {
  u32 at = pci_capability(function, MSIX, 0);
  if (at == 0) return;
  u16 control = read16(function + at + MSIX_CONTROL);
  u32 table = read32(function + at + MSIX_TABLE);
  u64 entry = pci_bar(function, table & 7) + (table & ~7u);
  for (u32 count = (control & MSIX_SIZE) + 1; count > 0; count--, entry += ENTRY_BYTES) {
    write32(entry, MESSAGE_ADDRESS);
    write32(entry + 4, 0);
    write32(entry + 8, WAKE_VECTOR);
    write32(entry + 12, 0);
  }
  write16(function + at + MSIX_CONTROL, control | MSIX_ON);
}
