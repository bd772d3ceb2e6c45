import { closeSync } from 'node:fs'
import { readFile, readdir } from 'node:fs/promises'
import { constants } from 'node:os'
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import { attach, setHeaderSize, setNoOffload } from './tun-control.ts'
import type { DeviceName, UserId } from '../../core/vm/ids.ts'

/** asm-generic/unistd.h; the same on x86-64 and arm64. */
const SYS_PIDFD_OPEN = 434
const SYS_PIDFD_GETFD = 438

const syscall = library('libc.so.6').func('long syscall(long number, ...)')

/**
 * Gives a process that lost its tap the device of that name instead, without its doing.
 *
 * When a tap is deleted, what the process has open stays open and belongs to no device (tun_detach_all in
 * drivers/net/tun.c); QEMU asks it for frames for ever and never opens another. But an open file is one thing however many
 * descriptors name it: pidfd_getfd(2) gives us a descriptor of the very file that the monitor has open, TUNSETIFF on it
 * attaches that file to a device once more, and the monitor's next read and write find it there. The guest has seen lost
 * frames, and nothing else.
 *
 * What the monitor had set on the lost device is set on this one: the size of the header before each frame, before any
 * frame can pass (createTap). What it may be sent unfinished (TUNSETOFFLOAD) only the monitor knows. A new device finishes
 * every frame, and that is always right: a guest's offer to take unfinished ones binds nobody (virtio, 5.1.6.4). The
 * guest's own unfinished frames are described by their headers and pass as before.
 *
 * It needs CAP_SYS_PTRACE, Linux 5.6, and a Yama ptrace_scope below 3. Does nothing where the process holds the device.
 * Throws ErrnoError: ENXIO where the process has lost none.
 */
export async function attachAgain(device: DeviceName, pid: number, userId: UserId): Promise<void> {
  const process = open('pidfd_open', syscall(SYS_PIDFD_OPEN, 'int', pid, 'unsigned int', 0))
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
    // Should the process have ended meanwhile, this fails with ESRCH, whoever has its number now.
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

/** The effective user of a process (proc_pid_status(5)). */
async function userOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^Uid:\t\d+\t(\d+)/m.exec(status)?.[1])
}

type TunDescriptor = {
  readonly fd: number
  /** Empty where the device is gone. */
  readonly attachedTo: string
}

/** Files of /dev/net/tun alone have a line `iff:` with the name of their device (tun_chr_show_fdinfo). */
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
