import { closeSync } from 'node:fs'
import { readFile, readdir } from 'node:fs/promises'
import { constants } from 'node:os'
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import { openPidfd } from '../ffi/pidfd.ts'
import { attach, setHeaderSize, setNoOffload } from './tun-control.ts'
import type { DeviceName, UserId } from '../../core/ids.ts'

/** asm-generic/unistd.h; the same on x86-64 and arm64. */
const SYS_PIDFD_GETFD = 438

const syscall = library('libc.so.6').func('long syscall(long number, ...)')

/**
 * Attaches a process that lost its tap to the device of that name, without the process doing anything.
 *
 * When a tap is deleted, the file that the process has open stays open and belongs to no device (tun_detach_all in
 * drivers/net/tun.c). QEMU keeps reading it for frames, and never opens another one. But all descriptors of an open
 * file share it. pidfd_getfd(2) gives us a descriptor of the monitor's own file, and TUNSETIFF on that descriptor
 * attaches the file to a device again. The monitor's next read and write use the new device. The guest sees only lost
 * frames.
 *
 * The settings that the monitor had made on the lost device are made on this one. The size of the header before each
 * frame is set before any frame can pass (createTap). Only the monitor knows which unfinished frames it accepts
 * (TUNSETOFFLOAD). A new device finishes every frame, which is always correct: a guest's offer to accept unfinished
 * frames does not oblige the device to send them (virtio, 5.1.6.4). Headers describe the guest's own unfinished frames,
 * which pass as before.
 *
 * It needs CAP_SYS_PTRACE, Linux 5.6, and a Yama ptrace_scope below 3. Does nothing if the process has the device.
 * Throws ErrnoError; ENXIO if the process has lost none.
 */
export async function attachAgain(device: DeviceName, pid: number, userId: UserId): Promise<void> {
  const process = openPidfd(pid)
  try {
    if ((await userOf(pid)) !== userId) {
      throw new ErrnoError(`process ${pid} does not run as user ${userId}`, constants.errno.EPERM)
    }
    const descriptors = await tunDescriptors(pid)
    if (descriptors.some(({ attachedTo }) => attachedTo === device)) return
    const lost = descriptors.find(({ attachedTo }) => attachedTo === '')
    if (lost === undefined) {
      throw new ErrnoError(`find a tap that process ${pid} lost`, constants.errno.ENXIO)
    }
    // If the process has ended meanwhile, this fails with ESRCH, even if another process has its number now.
    const file = open(
      'pidfd_getfd',
      syscall(SYS_PIDFD_GETFD, 'int', process, 'int', lost.fd, 'unsigned int', 0),
    )
    try {
      attach(file, device, { exclusive: false })
      setHeaderSize(file)
      setNoOffload(file)
    } finally {
      closeSync(file)
    }
  } finally {
    closeSync(process)
  }
}

function open(call: string, result: unknown): number {
  if (Number(result) < 0) throw new ErrnoError(call, errno())
  return Number(result)
}

/** Returns the effective user of a process (proc_pid_status(5)). */
async function userOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^Uid:\t\d+\t(\d+)/m.exec(status)?.[1])
}

type TunDescriptor = {
  readonly fd: number
  /** The name of the device; empty if the device is gone. */
  readonly attachedTo: string
}

/**
 * Lists the process's descriptors of /dev/net/tun. Only these have a line `iff:` with the name of their device
 * (tun_chr_show_fdinfo).
 */
async function tunDescriptors(pid: number): Promise<readonly TunDescriptor[]> {
  const directory = `/proc/${pid}/fdinfo`
  const found = await Promise.all(
    (await readdir(directory)).map(async (fd) => {
      const text = await readFile(`${directory}/${fd}`, 'utf8').catch((error: unknown) => {
        // It was closed meanwhile.
        if (hasErrno(error, 'ENOENT')) return ''
        throw error
      })
      const attachedTo = /^iff:\t(.*)$/m.exec(text)?.[1]
      return attachedTo === undefined ? [] : [{ fd: Number(fd), attachedTo }]
    }),
  )
  return found.flat()
}
