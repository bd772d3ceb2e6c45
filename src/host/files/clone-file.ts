import { constants } from 'node:fs'
import { openOfVm } from './open-of-vm.ts'
import { copyFile, open } from './pool-files.ts'
import { SparseFile } from './sparse-file.ts'
import { MIB } from '../../lib/byte-units.ts'
import { hasErrno } from '../ffi/errno-error.ts'

export type CloneMethod = 'reflink' | 'copy'

/** The errors with which file systems refuse to share blocks between these two files (ioctl_ficlone(2)). */
const NO_REFLINK = ['ENOTSUP', 'EOPNOTSUPP', 'ENOTTY', 'ENOSYS', 'EXDEV', 'EINVAL']

/** Clones a file. Shares its blocks if the file system can, and otherwise copies it and keeps its holes. */
export async function cloneFile(from: string, to: string, signal: AbortSignal): Promise<CloneMethod> {
  signal.throwIfAborted()
  if (await reflink(from, to)) return 'reflink'
  await copySparsely(from, to, signal)
  return 'copy'
}

/** Clones a file by sharing its blocks. Returns false if the file system cannot. */
export async function reflink(from: string, to: string): Promise<boolean> {
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL)
    return true
  } catch (error) {
    if (hasErrno(error, ...NO_REFLINK)) return false
    throw error
  }
}

/**
 * Clones a file of a VM as {@link reflink} does. `copyFile` opens the file once more, and that open would wait for a
 * lease. So this keeps the file open meanwhile.
 */
export async function reflinkOfVm(from: string, to: string): Promise<boolean> {
  const held = await openOfVm(from)
  try {
    return await reflink(from, to)
  } finally {
    await held.close()
  }
}

const READ_BYTES = MIB

export async function copySparsely(from: string, to: string, signal: AbortSignal): Promise<void> {
  const source = await open(from, 'r')
  try {
    const file = await open(to, 'wx', 0o600)
    const target = new SparseFile(file)
    try {
      const buffer = Buffer.allocUnsafe(READ_BYTES)
      for (let at = 0; ;) {
        signal.throwIfAborted()
        const { bytesRead } = await source.read(buffer, 0, READ_BYTES, at)
        if (bytesRead === 0) break
        await target.write(buffer.subarray(0, bytesRead))
        at += bytesRead
      }
      await target.finish()
    } finally {
      await target.settle()
      await file.close()
    }
  } finally {
    await source.close()
  }
}
