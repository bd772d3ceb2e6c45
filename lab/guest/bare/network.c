#include "network.h"
#include "packet.h"
#include "virtio.h"

/*
 * virtio 1.2, 5.1.6: with VIRTIO_F_VERSION_1 each frame has a header of 12 bytes. Firecracker delivers a frame only while
 * the free buffers have 64 KiB together, so they are much larger than a frame.
 */
enum { HEADER = 12, BUFFER_BYTES = 16384, MAC_FEATURE = 1 << 5 };
enum { RECEIVING = 0, SENDING = 1 };

static struct virtio device;
static struct queue receiving, sending;
static bool is_there;

/* Each buffer is in one ring at a time: an answer is sent from where its question came, and then it receives again. */
static u8 buffers[QUEUE_SIZE][BUFFER_BYTES] __attribute__((aligned(16)));

bool network_start(const u8 ipv4[4]) {
  if (!virtio_find(&device, VIRTIO_NETWORK, MAC_FEATURE)) return false;
  virtio_use_queue(&device, &receiving, RECEIVING);
  virtio_use_queue(&device, &sending, SENDING);
  u8 mac[6];
  for (u32 byte = 0; byte < sizeof mac; byte++) mac[byte] = read8(device.device + byte);
  network_set_address(ipv4, mac);
  for (u16 slot = 0; slot < QUEUE_SIZE; slot++) {
    queue_set(&receiving, slot, buffers[slot], BUFFER_BYTES, true);
    queue_offer(&receiving, slot);
  }
  virtio_go(&device);
  queue_notify(&receiving);
  return is_there = true;
}

bool network_serve(void) {
  if (!is_there) return false;
  u16 slot;
  u32 length;
  bool has_received = false, has_sent = false, had_frames = false;
  while (queue_take(&sending, &slot, &length)) {
    queue_offer(&receiving, slot);
    has_received = true;
  }
  while (queue_take(&receiving, &slot, &length)) {
    had_frames = true;
    u32 answer = length > HEADER ? answer_frame(buffers[slot] + HEADER, length - HEADER) : 0;
    if (answer == 0) {
      queue_offer(&receiving, slot);
      has_received = true;
      continue;
    }
    memset(buffers[slot], 0, HEADER);
    queue_set(&sending, slot, buffers[slot], HEADER + answer, false);
    queue_offer(&sending, slot);
    has_sent = true;
  }
  if (has_sent) queue_notify(&sending);
  if (has_received) queue_notify(&receiving);
  return had_frames;
}
