/* The few facts that the guest takes from the ACPI tables. */
#ifndef ACPI_H
#define ACPI_H

#include "boot.h"

void acpi_start(const struct start_info *info);

/* Returns the address of the configuration space of the first PCI bus, or 0. */
u64 acpi_pci_configuration(void);

/* Returns the address of the 16 bytes of the generation id, or 0 if this machine has none. */
u64 acpi_generation_id(void);

#endif
