import type { Entries } from './entry.ts'

/** Problems of the storage pool and of the disks in it. */
export const storage = {
  rejections: {
    disk_shrink: {
      status: 422,
      title: 'A disk never shrinks',
      meaning: 'The disk would become smaller than it is.',
      remedy: 'Ask for the present size or more.',
      example: 'the disk of web-1 has 2048 MiB and never shrinks: ask for that or more',
      writtenBy: ['src/commands/vm/reshape.ts'],
    },
    disk_too_small: {
      status: 422,
      title: 'The disk is smaller than its image',
      meaning: 'The disk is smaller than the root image, which is in the pool already.',
      remedy: 'Ask for at least the size that the error names. Grow the disk before a rebuild.',
      example: 'the disk has 1024 MiB and its image 2048 MiB: ask for a disk of that or more',
      writtenBy: ['src/commands/vm/image-sources.ts'],
      advice: ['--disk gives a larger one'],
    },
  },
  faults: {
    disk_io_error: {
      retry: 'backoff',
      title: 'The guest is paused because its disk failed',
      meaning: 'The guest is paused: the pool has no room for what it writes.',
      remedy:
        'Free space in the pool or grow it: within a minute the guest goes on where it was, and its write is made again.',
      example:
        'resuming VM web-1: the monitor paused the guest again: the pool has no room for its writes; it continues when there is room again',
      writtenBy: ['src/host/qemu/qemu-monitor.ts', 'src/host/monitors/monitor-error.ts'],
    },
    storage_inspection_failed: {
      retry: 'backoff',
      title: 'The storage pool could not be inspected',
      meaning: 'The storage pool could not be inspected: its mark or mount is missing, or the disk fails.',
      remedy:
        'Mount it. If it is lost, see "The pool is lost" in recovery.md. Nothing is removed or made meanwhile.',
      example: 'looking for the storage pool: ENOENT: no such file or directory',
      writtenBy: ['src/host/pool/pool-marker.ts'],
      quotes: ['ENOENT: no such file or directory'],
      advice: [
        'on that host: is the pool there and mounted? the configuration has it as storage.pool_directory',
        'guests go on meanwhile, and the daemon looks again every few seconds',
      ],
    },
    disk_foreign: {
      retry: 'backoff',
      title: 'The disk in the pool belongs to another VM of that id',
      meaning:
        'The pool has a disk with the name of this VM, and the note beside it is of another VM, or of another rebuild of this VM, as after older records were put back; or there is no note, and this VM never had a disk. The daemon neither boots nor removes it.',
      remedy:
        'If the disk is of another VM and not needed, move its directory out of the pool (`disks/<id>`): the VM is then made from its image. To use the data, make an image of the file `disk.raw` and create a VM from that. Or delete the new VM: that leaves the disk alone. If the disk is of another rebuild of this VM, keep it so: `vmhostctl vm rm VM`, then `vmhostd recover VM --from` the copy `before-restore-TIME.db`. Or stop and rebuild the VM, which loses it.',
      example:
        'the pool has a disk with the name of web-1, and it belongs to a VM web-1 of 2026-03-01T09:00:00.000Z, and this one was created at 2030-01-01T12:00:00.000Z; move it out of the pool, or delete VM web-1',
      writtenBy: ['src/core/plan/plan-storage.ts', 'src/core/world/world.ts'],
    },
    disk_missing: {
      retry: 'backoff',
      title: 'The disk of the VM is gone from the pool',
      meaning:
        'The disk of the VM is gone from the pool. It is made again only by a rebuild: it would be another machine under the same name.',
      remedy:
        'Put the file back, rebuild the VM from an image, or delete it. The daemon repairs owner and mode of a disk that was put back.',
      example: 'the disk of web-1 is gone from the pool; put it back, rebuild the VM, or delete it',
      writtenBy: ['src/core/plan/plan-storage.ts'],
    },
    storage_read_only: {
      retry: 'backoff',
      title: 'The storage pool is read-only',
      meaning: 'The storage pool is mounted read-only, often after a disk error.',
      remedy: 'See the kernel log; repair and remount it.',
      example: 'making the disk of VM web-1: EROFS: read-only file system',
      writtenBy: ['src/host/disks/vm-disks.ts', 'src/host/files/storage-fault.ts'],
      quotes: ['EROFS: read-only file system'],
    },
    storage_full: {
      retry: 'backoff',
      title: 'The storage pool is full',
      meaning:
        'The storage pool has no space left; or an image would leave less free than `capacity.disk_reserve_mib`.',
      remedy: 'Free space in it or grow it.',
      example: 'making the disk of VM web-1: ENOSPC: no space left on device',
      writtenBy: ['src/host/disks/vm-disks.ts', 'src/host/files/storage-fault.ts'],
      quotes: ['ENOSPC: no space left on device'],
    },
    storage_failed: {
      retry: 'backoff',
      title: 'An operation on the storage pool failed',
      remedy: 'The error names the file and the cause.',
      example: 'making the disk of VM web-1: EIO: i/o error',
      writtenBy: ['src/host/disks/vm-disks.ts', 'src/host/files/storage-fault.ts'],
      quotes: ['EIO: i/o error'],
    },
    state_unwritable: {
      retry: 'backoff',
      title: 'The state directory cannot be written',
      meaning:
        'The records cannot be written: the file system of `/var/lib/vmhostd` is full or fails, another process has locked the database, or a file of it was removed or replaced under the daemon. A request is answered with it as a 503, and nothing of it is stored. Reads, stops that were accepted before, restarts and wakes by traffic go on; no VM falls asleep.',
      remedy:
        'Make room on the file system, or end the process that has the database open. It needs no restart. If a file was removed or replaced, do not restart the daemon: `vmhostd doctor` says what to do.',
      example: 'writing to the state directory: the disk is full: database or disk is full',
      writtenBy: ['src/store/database/transactions.ts'],
      quotes: ['database or disk is full'],
    },
  },
} as const satisfies Entries
