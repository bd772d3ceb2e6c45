import { mkdirSync, statfsSync } from 'node:fs'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'

/** BPF_FS_MAGIC of linux/magic.h. */
const BPF_FILESYSTEM = 0xcafe4a11
/** sys/mount.h: MS_NOSUID, MS_NODEV, MS_NOEXEC. */
const MOUNT_FLAGS = 0x2 | 0x4 | 0x8

const mount = library('libc.so.6').func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *options)',
)

/**
 * Mounts a BPF file system of our own, because not every host has one. Pinned objects live until it is unmounted. Only
 * root can open it. Throws ErrnoError.
 */
export function ensureBpfFilesystem(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  if (statfsSync(directory).type === BPF_FILESYSTEM) return
  if (mount('bpf', directory, 'bpf', MOUNT_FLAGS, 'mode=0700') !== 0)
    throw new ErrnoError(`mounting a BPF file system at ${directory}`, errno())
}
