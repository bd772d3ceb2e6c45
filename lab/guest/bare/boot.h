/* What the loader hands over: the PVH start info (Xen, public/arch-x86/hvm/start_info.h). */
#ifndef BOOT_H
#define BOOT_H

#include "machine.h"

struct start_info {
  u32 magic, version, flags, module_count;
  u64 modules, command_line, rsdp;
};

#endif
