#include "acpi.h"

/* ACPI 6.5, 5.2.5.3 "Root System Description Pointer (RSDP) Structure". */
struct rsdp {
  char signature[8];
  u8 checksum, oem[6], revision;
  u32 rsdt, length;
  u64 xsdt;
} __attribute__((packed));

/* ACPI 6.5, 5.2.6 "System Description Table Header". */
struct table {
  char signature[4];
  u32 length;
  u8 revision, checksum, oem[6], oem_table[8];
  u32 oem_revision, creator, creator_revision;
  u8 content[];
} __attribute__((packed));

static const struct rsdp *rsdp;

/* The loader may leave the pointer out; it then lies in the BIOS area (ACPI 6.5, 5.2.5.1). */
static const struct rsdp *find_rsdp(u64 given) {
  if (given != 0) return (const struct rsdp *)given;
  for (u64 at = 0xe0000; at < 0x100000; at += 16)
    if (memcmp((const void *)at, "RSD PTR ", 8) == 0) return (const struct rsdp *)at;
  return NULL;
}

void acpi_start(const struct start_info *info) { rsdp = find_rsdp(info->rsdp); }

static const struct table *find_table(const char *signature) {
  if (rsdp == NULL) return NULL;
  bool wide = rsdp->revision >= 2 && rsdp->xsdt != 0;
  const struct table *root = (const struct table *)(wide ? rsdp->xsdt : rsdp->rsdt);
  u32 width = wide ? 8 : 4;
  for (u32 at = 0; at + width <= root->length - sizeof *root; at += width) {
    u64 address = 0;
    memcpy(&address, root->content + at, width);
    const struct table *table = (const struct table *)address;
    if (memcmp(table->signature, signature, 4) == 0) return table;
  }
  return NULL;
}

/* PCI Firmware 3.3, 4.1.2: 8 reserved bytes, then the base address of the first segment. */
u64 acpi_pci_configuration(void) {
  const struct table *mcfg = find_table("MCFG");
  u64 base = 0;
  if (mcfg != NULL) memcpy(&base, mcfg->content + 8, sizeof base);
  return base;
}

/* Reads an integer of AML (ACPI 6.5, 20.2.3) and moves past it. */
static u64 read_integer(const u8 **at) {
  u8 prefix = *(*at)++;
  u32 width = prefix == 0x0a ? 1 : prefix == 0x0b ? 2 : prefix == 0x0c ? 4 : prefix == 0x0e ? 8 : 0;
  u64 value = width == 0 ? prefix : 0;
  memcpy(&value, *at, width);
  *at += width;
  return value;
}

/*
 * "Virtual Machine Generation ID" (Microsoft): a device with the compatible id VM_Gen_Counter, whose object ADDR is a
 * package of the lower and the upper half of an address. A look for those words in the bytes of the DSDT spares an
 * interpreter of AML.
 */
u64 acpi_generation_id(void) {
  const struct table *fadt = find_table("FACP");
  if (fadt == NULL) return 0;
  /* ACPI 6.5, 5.2.9: the DSDT at byte 40, or its 64-bit address at byte 140. */
  u64 address = 0;
  memcpy(&address, (const u8 *)fadt + 40, 4);
  if (address == 0) memcpy(&address, (const u8 *)fadt + 140, 8);
  const struct table *dsdt = (const struct table *)address;
  if (dsdt == NULL) return 0;
  const u8 *end = (const u8 *)dsdt + dsdt->length - 16;
  bool in_device = false;
  for (const u8 *at = dsdt->content; at < end; at++) {
    if (*at == 'V' && memcmp(at, "VM_Gen_Counter", 14) == 0) in_device = true;
    if (!in_device || *at != 'A' || memcmp(at, "ADDR", 4) != 0) continue;
    /* PackageOp, its length in one byte, the number of elements. */
    const u8 *integer = at + 4 + 3;
    u64 low = read_integer(&integer);
    return low | read_integer(&integer) << 32;
  }
  return 0;
}
