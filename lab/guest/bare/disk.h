/* The first virtio disk. */
#ifndef DISK_H
#define DISK_H

#include "machine.h"

enum { SECTOR_BYTES = 512, DISK_SECTORS_MAX = 128 };

bool disk_start(void);

/* Returns the present size in sectors; the device counts it again when the disk grows. 0: there is no disk. */
u64 disk_sectors(void);

/* The content of the next write, and of the last read. */
extern u8 disk_data[DISK_SECTORS_MAX * SECTOR_BYTES];

/* Wait until the disk has answered; the network is served meanwhile. Return false if it reports an error. */
bool disk_read(u64 sector, u32 count);
bool disk_write(u64 sector, u32 count);
bool disk_flush(void);

#endif
