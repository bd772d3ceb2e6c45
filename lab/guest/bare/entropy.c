#include "entropy.h"
#include "serve.h"
#include "virtio.h"

static struct virtio device;
static struct queue requests;
static bool is_there;
static u8 buffer[64];

bool entropy_start(void) {
  if (!virtio_find(&device, VIRTIO_ENTROPY, 0)) return false;
  virtio_use_queue(&device, &requests, 0);
  virtio_go(&device);
  return is_there = true;
}

/* virtio 1.2, 5.4.6. */
u32 entropy_fill(void *to, u32 length) {
  if (!is_there) return 0;
  if (length > sizeof buffer) length = sizeof buffer;
  queue_set(&requests, 0, buffer, length, true);
  queue_offer(&requests, 0);
  queue_notify(&requests);
  u16 slot;
  u32 given;
  while (!queue_take(&requests, &slot, &given)) serve_or_wait();
  if (given > length) given = length;
  memcpy(to, buffer, given);
  return given;
}
