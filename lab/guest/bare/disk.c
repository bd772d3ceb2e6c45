#include "disk.h"
#include "serve.h"
#include "virtio.h"

/* virtio 1.2, 5.2.6 "Device Operation": a header, the data, and a status that the device writes. */
enum { READ = 0, WRITE = 1, FLUSH = 4 };
enum { FLUSH_FEATURE = 1 << 9 };
/* virtio 1.2, 2.7.5. */
enum { CONTINUES = 1 };

static struct virtio device;
static struct queue requests;
static bool is_there;
static struct {
  u32 type, reserved;
  u64 sector;
} header;
static volatile u8 status;
u8 disk_data[DISK_SECTORS_MAX * SECTOR_BYTES] __attribute__((aligned(4096)));

bool disk_start(void) {
  if (!virtio_find(&device, VIRTIO_DISK, FLUSH_FEATURE)) return false;
  virtio_use_queue(&device, &requests, 0);
  virtio_go(&device);
  return is_there = true;
}

u64 disk_sectors(void) { return is_there ? virtio_read_config64(&device, 0) : 0; }

static bool request(u32 type, u64 sector, u32 bytes) {
  if (!is_there) return false;
  header.type = type;
  header.sector = sector;
  status = 0xff;
  u16 status_slot = bytes == 0 ? 1 : 2;
  queue_set(&requests, 0, &header, sizeof header, false);
  if (bytes > 0) queue_set(&requests, 1, disk_data, bytes, type == READ);
  queue_set(&requests, status_slot, (void *)&status, 1, true);
  for (u16 slot = 0; slot < status_slot; slot++) {
    requests.descriptors[slot].flags |= CONTINUES;
    requests.descriptors[slot].next = slot + 1;
  }
  queue_offer(&requests, 0);
  queue_notify(&requests);
  u16 slot;
  u32 length;
  while (!queue_take(&requests, &slot, &length)) serve_or_wait();
  return status == 0;
}

bool disk_read(u64 sector, u32 count) { return request(READ, sector, count * SECTOR_BYTES); }
bool disk_write(u64 sector, u32 count) { return request(WRITE, sector, count * SECTOR_BYTES); }
bool disk_flush(void) { return request(FLUSH, 0, 0); }
