/* PCI functions: their configuration space, their BARs and their interrupts. */
#ifndef PCI_H
#define PCI_H

#include "machine.h"

/* Address of a function's configuration space; 0 is none. */
typedef u64 pci_function;

/* Takes the address of the bus's configuration space; 0 is QEMU's. Returns false if the machine has no bus. */
bool pci_start(u64 configuration);

/* Returns the function in a slot of the first bus, or 0. */
pci_function pci_in_slot(u32 slot);

enum { PCI_SLOTS = 32 };

u16 pci_vendor(pci_function function);
u16 pci_device(pci_function function);

/* Gives addresses to BARs that have none, and lets the function answer there and write to memory. */
void pci_enable(pci_function function);

/* Returns the address of a BAR. */
u64 pci_bar(pci_function function, u32 index);

/* Returns the offset of the next capability with this id after `after` (0: the first), or 0. */
u32 pci_capability(pci_function function, u8 id, u32 after);

/* Lets each entry of the function's MSI-X table interrupt this processor. */
void pci_use_msix(pci_function function);

#endif
