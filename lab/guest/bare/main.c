/* Starts what there is, and then does what comes. */
#include "acpi.h"
#include "console.h"
#include "disk.h"
#include "entropy.h"
#include "interrupts.h"
#include "network.h"
#include "pci.h"
#include "serial.h"
#include "serve.h"
#include "vsock.h"

static bool serve_packets(void) {
  bool network = network_serve(), vsock = vsock_serve();
  return network || vsock;
}

void serve_or_wait(void) {
  if (!serve_packets()) wait_for_interrupt();
}

/* Reads the address from `ip=ADDRESS:…` (Linux, Documentation/admin-guide/nfs/nfsroot.rst). Without it, it stays 0. */
static void read_address(const char *line, u8 address[4]) {
  for (const char *at = line; *at != 0; at++) {
    if ((at != line && at[-1] != ' ') || memcmp(at, "ip=", 3) != 0) continue;
    at += 3;
    for (u32 byte = 0; *at != 0 && *at != ':' && byte < 4; at++) {
      if (*at == '.') byte++;
      else address[byte] = (u8)(address[byte] * 10 + (*at - '0'));
    }
    return;
  }
}

/*
 * Ends a monitor that ends when its guest reboots: by the keyboard controller, which takes effect a little later, or
 * else, on a machine without it, by a triple fault.
 */
_Noreturn void reboot(void) {
  enum { KEYBOARD_CONTROLLER = 0x64, PULSE_RESET = 0xfe, PATIENCE = 50000 };
  out8(KEYBOARD_CONTROLLER, PULSE_RESET);
  for (volatile u32 turn = 0; turn < PATIENCE; turn++) {}
  struct {
    u16 limit;
    u64 base;
  } __attribute__((packed)) none = {0, 0};
  __asm__ volatile("lidt %0; int3" ::"m"(none));
  stop();
}

_Noreturn void main(const struct start_info *info) {
  interrupts_start();
  serial_start();
  acpi_start(info);
  u8 address[4] = {0};
  read_address((const char *)info->command_line, address);
  if (pci_start(acpi_pci_configuration())) {
    disk_start();
    entropy_start();
    network_start(address);
    vsock_start();
  } else {
    put("bare guest: no PCI bus\r\n");
  }
  console_start();
  for (;;) {
    console_serve();
    serve_or_wait();
  }
}
