#include "virtio.h"

enum { VENDOR = 0x1af4, DEVICE_BASE = 0x1040 };

/* Capabilities that say where the registers are (virtio 1.2, 4.1.4). */
enum { VENDOR_CAPABILITY = 0x09, TYPE = 3, BAR = 4, OFFSET = 8, MULTIPLIER = 16 };
enum { COMMON = 1, NOTIFY = 2, DEVICE = 4 };

/* The common configuration (virtio 1.2, 4.1.4.3). */
enum {
  DEVICE_FEATURE_SELECT = 0x00,
  DEVICE_FEATURE = 0x04,
  DRIVER_FEATURE_SELECT = 0x08,
  DRIVER_FEATURE = 0x0c,
  CONFIG_VECTOR = 0x10,
  STATUS = 0x14,
  GENERATION = 0x15,
  QUEUE_SELECT = 0x16,
  SIZE = 0x18,
  QUEUE_VECTOR = 0x1a,
  ENABLE = 0x1c,
  NOTIFY_OFFSET = 0x1e,
  DESCRIPTORS = 0x20,
  AVAILABLE = 0x28,
  USED = 0x30,
};

/* virtio 1.2, 2.1. */
enum { ACKNOWLEDGE = 1, DRIVER = 2, DRIVER_OK = 4, FEATURES_OK = 8 };
/* VIRTIO_F_VERSION_1, bit 32 (virtio 1.2, section 6). */
enum { VERSION_1 = 1 };
/* virtio 1.2, 2.7.5. */
enum { WRITTEN_BY_DEVICE = 2 };

static pci_function find_function(u16 type) {
  for (u32 slot = 0; slot < PCI_SLOTS; slot++) {
    pci_function function = pci_in_slot(slot);
    if (function == 0 || pci_vendor(function) != VENDOR) continue;
    if (pci_device(function) == DEVICE_BASE + type) return function;
  }
  return 0;
}

static void find_registers(struct virtio *virtio) {
  pci_function function = virtio->function;
  for (u32 at = 0; (at = pci_capability(function, VENDOR_CAPABILITY, at)) != 0;) {
    u64 address = pci_bar(function, read8(function + at + BAR)) + read32(function + at + OFFSET);
    u8 type = read8(function + at + TYPE);
    if (type == COMMON) virtio->common = address;
    if (type == DEVICE) virtio->device = address;
    if (type != NOTIFY) continue;
    virtio->notify = address;
    virtio->notify_multiplier = read32(function + at + MULTIPLIER);
  }
}

/* virtio 1.2, 3.1.1 "Driver Requirements: Device Initialization". */
bool virtio_find(struct virtio *virtio, u16 type, u32 features) {
  virtio->function = find_function(type);
  if (virtio->function == 0) return false;
  pci_enable(virtio->function);
  pci_use_msix(virtio->function);
  find_registers(virtio);
  u64 common = virtio->common;
  write8(common + STATUS, 0);
  while (read8(common + STATUS) != 0) {}
  write8(common + STATUS, ACKNOWLEDGE);
  write8(common + STATUS, ACKNOWLEDGE | DRIVER);
  write32(common + DEVICE_FEATURE_SELECT, 0);
  write32(common + DRIVER_FEATURE_SELECT, 0);
  write32(common + DRIVER_FEATURE, features & read32(common + DEVICE_FEATURE));
  write32(common + DRIVER_FEATURE_SELECT, 1);
  write32(common + DRIVER_FEATURE, VERSION_1);
  write8(common + STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
  write16(common + CONFIG_VECTOR, 0);
  return (read8(common + STATUS) & FEATURES_OK) != 0;
}

static void write_address(u64 at, const volatile void *address) {
  write32(at, (u32)(u64)address);
  write32(at + 4, (u32)((u64)address >> 32));
}

void virtio_use_queue(struct virtio *virtio, struct queue *queue, u16 index) {
  u64 common = virtio->common;
  write16(common + QUEUE_SELECT, index);
  write16(common + SIZE, QUEUE_SIZE);
  write16(common + QUEUE_VECTOR, 0);
  write_address(common + DESCRIPTORS, queue->descriptors);
  write_address(common + AVAILABLE, &queue->available);
  write_address(common + USED, &queue->used);
  queue->index = index;
  queue->notify = virtio->notify + read16(common + NOTIFY_OFFSET) * virtio->notify_multiplier;
  write16(common + ENABLE, 1);
}

void virtio_go(struct virtio *virtio) {
  write8(virtio->common + STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
}

/* virtio 1.2, 2.5.1: a counter says whether the configuration changed between two reads. */
u64 virtio_read_config64(const struct virtio *virtio, u32 offset) {
  for (;;) {
    u8 generation = read8(virtio->common + GENERATION);
    u64 at = virtio->device + offset;
    u64 value = read32(at) | (u64)read32(at + 4) << 32;
    if (read8(virtio->common + GENERATION) == generation) return value;
  }
}

void queue_set(struct queue *queue, u16 slot, void *buffer, u32 length, bool for_device) {
  u16 flags = for_device ? WRITTEN_BY_DEVICE : 0;
  queue->descriptors[slot] = (struct descriptor){(u64)buffer, length, flags, 0};
}

void queue_offer(struct queue *queue, u16 slot) {
  queue->available.ring[queue->available.index % QUEUE_SIZE] = slot;
  barrier();
  queue->available.index++;
  barrier();
}

void queue_notify(struct queue *queue) { write16(queue->notify, queue->index); }

bool queue_take(struct queue *queue, u16 *slot, u32 *length) {
  if (queue->seen == queue->used.index) return false;
  barrier();
  *slot = (u16)queue->used.ring[queue->seen % QUEUE_SIZE].id;
  *length = queue->used.ring[queue->seen % QUEUE_SIZE].length;
  queue->seen++;
  return true;
}
