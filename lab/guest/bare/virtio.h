/* Virtio devices on PCI, and their rings (virtio 1.2, sections 2.7 and 4.1). */
#ifndef VIRTIO_H
#define VIRTIO_H

#include "pci.h"

/* Device types (virtio 1.2, section 5). */
enum { VIRTIO_NETWORK = 1, VIRTIO_DISK = 2, VIRTIO_ENTROPY = 4, VIRTIO_VSOCK = 19 };

enum { QUEUE_SIZE = 16 };

struct descriptor {
  u64 address;
  u32 length;
  u16 flags, next;
};

struct queue {
  u64 notify;
  u16 index, seen;
  struct descriptor descriptors[QUEUE_SIZE] __attribute__((aligned(16)));
  struct {
    u16 flags, index, ring[QUEUE_SIZE];
  } available __attribute__((aligned(2)));
  struct {
    u16 flags;
    volatile u16 index;
    struct {
      u32 id, length;
    } ring[QUEUE_SIZE];
  } used __attribute__((aligned(4)));
};

struct virtio {
  pci_function function;
  u64 common, notify, device;
  u32 notify_multiplier;
};

/*
 * Finds the first device of a type, and accepts those of `features` (the lower 32 bits) that it offers. Returns false if
 * there is none. Then call virtio_use_queue for each queue, and virtio_go.
 */
bool virtio_find(struct virtio *virtio, u16 type, u32 features);
void virtio_use_queue(struct virtio *virtio, struct queue *queue, u16 index);
void virtio_go(struct virtio *virtio);

/* Reads 64 bits of the device's own configuration, which may change meanwhile. */
u64 virtio_read_config64(const struct virtio *virtio, u32 offset);

/* Describes a buffer, which the device writes if `for_device`, and else reads. */
void queue_set(struct queue *queue, u16 slot, void *buffer, u32 length, bool for_device);

/* Makes the chain that begins at a descriptor available to the device. queue_notify says so to the device. */
void queue_offer(struct queue *queue, u16 slot);
void queue_notify(struct queue *queue);

/* Returns whether the device has given back a chain: the first descriptor, and the bytes that it wrote. */
bool queue_take(struct queue *queue, u16 *slot, u32 *length);

#endif
