import { errno, library } from './koffi.ts'
import { ErrnoError } from './errno-error.ts'

/** sys/mount.h: MS_NOSUID, MS_NODEV, MS_NOEXEC. */
const FLAGS = 0x2 | 0x4 | 0x8

const mount = library('libc.so.6').func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *options)',
)

/**
 * Mounts a new file system of the kernel's (mount(2)), without devices and programs. Options are those of its type.
 * Throws ErrnoError.
 */
export function mountFilesystem(type: 'bpf' | 'tmpfs', directory: string, options: string): void {
  if (mount(type, directory, type, FLAGS, options) !== 0)
    throw new ErrnoError(`mounting a ${type} at ${directory}`, errno())
}
