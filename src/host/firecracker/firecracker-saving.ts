import { constants } from 'node:fs'
import { lstat, open as openHere, rm } from 'node:fs/promises'
import { limits } from '../../config/limits.ts'
import { firecrackerPaths, NETWORK_INTERFACE } from '../../core/monitor/firecracker-machine.ts'
import { never } from '../../lib/abortable.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { RestoredGuest, SavedGuest } from '../../ports/monitor.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { open } from '../files/pool-files.ts'
import { MonitorRefusal } from '../monitors/monitor-error.ts'
import { makeRuntimeFile } from '../systemd/runtime-directories.ts'
import { askFirecracker } from './firecracker-api.ts'

/** Paths of one guest, from {@link firecrackerPaths}. */
export type GuestPaths = ReturnType<typeof firecrackerPaths>

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants

/** Memory is read in pieces of this size. */
const CHUNK_BYTES = MIB
/** Smaller stretches of zeros stay in the file: a hole costs a call, and the file system an entry. */
const HOLE_BYTES = 64 * 1024
const ZEROS = Buffer.alloc(HOLE_BYTES)

/**
 * Saves a paused guest to one file: its memory, then its devices and vCPUs. Firecracker writes the two to files of
 * their own, and all of the memory; pages of zeros become holes here. Firecracker cannot end a save that has begun. So
 * on abort this waits until Firecracker is done: no write may follow, and the guest could not be resumed anyway.
 */
export async function saveGuest(
  { path, memoryMib }: Omit<SavedGuest, 'id'>,
  paths: GuestPaths,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  await rm(paths.state, { force: true })
  try {
    const body = { snapshot_type: 'Full', snapshot_path: paths.state, mem_file_path: path }
    const create = {
      method: 'PUT',
      target: '/snapshot/create',
      body,
      withinMs: limits.firecrackerSaveMs,
    } as const
    await askFirecracker(paths.api, create, never)
    signal.throwIfAborted()
    const state = await readState(paths)
    const file = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
    try {
      const { size } = await file.stat()
      // A sparse file takes no space, but reading it takes time.
      if (size !== memoryMib * MIB)
        throw new MonitorRefusal({ desc: `it wrote a memory of ${size} bytes for ${memoryMib} MiB` })
      await freeZeros(file, size, signal)
      await writeAll(file, state, size)
    } finally {
      await file.close()
    }
  } finally {
    await rm(paths.state, { force: true })
  }
}

/**
 * Announces to a paused guest that its vsock connections have ended. After every resume, Firecracker keeps what is sent
 * to the guest until the guest has taken that announcement (1.16, Vsock::kick), but it announces only when it saves. So
 * without this no agent could be reached after a plain pause. A save into a directory that does not exist announces,
 * and then fails before it writes anything.
 */
export async function resetVsock({ api, directory }: GuestPaths, signal: AbortSignal): Promise<void> {
  const nowhere = `${directory}/none/state`
  const body = { snapshot_type: 'Full', snapshot_path: nowhere, mem_file_path: nowhere }
  try {
    await askFirecracker(api, { method: 'PUT', target: '/snapshot/create', body }, signal)
  } catch (error) {
    if (!(error instanceof MonitorRefusal)) throw error
  }
}

/** Reads the file of the devices. Its directory belongs to the monitor, which may put anything there. */
async function readState({ directory, state }: GuestPaths): Promise<Buffer> {
  const { uid } = await lstat(directory)
  const handle = await openHere(state, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const found = await handle.stat()
    const isIts = found.isFile() && found.uid === uid
    if (!isIts || found.size === 0 || found.size > limits.firecrackerStateBytesMax)
      throw new MonitorRefusal({
        desc: `what it wrote of its devices is not a file of its own of a usual length`,
      })
    const content = Buffer.alloc(found.size)
    const { bytesRead } = await handle.read(content, 0, content.length, 0)
    return content.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** Makes holes of blocks of zeros. A hole that cannot be made costs space, and nothing else. */
async function freeZeros(file: GatedFile, bytes: number, signal: AbortSignal): Promise<void> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  let from: number | undefined
  const end = async (at: number): Promise<void> => {
    if (from !== undefined) await file.punchHole(from, at - from)
    from = undefined
  }
  for (let at = 0; at < bytes; at += CHUNK_BYTES) {
    signal.throwIfAborted()
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, at)
    for (let block = 0; block < bytesRead; block += HOLE_BYTES) {
      if (chunk.subarray(block, block + HOLE_BYTES).equals(ZEROS)) from ??= at + block
      else await end(at + block)
    }
  }
  await end(bytes)
}

async function writeAll(file: GatedFile, content: Buffer, position: number): Promise<void> {
  for (let at = 0; at < content.length;) {
    const { bytesWritten } = await file.write(content, at, content.length - at, position + at)
    at += bytesWritten
  }
}

/**
 * Loads a guest into a Firecracker that has none. It stays paused. Firecracker maps the memory in the file that is
 * saved, and keeps it after the file is removed; the devices get a file of their own for that moment.
 */
export async function loadGuest(
  { userId, path, memoryMib, tapDevice }: Omit<RestoredGuest, 'id'>,
  paths: GuestPaths,
  { clock, signal }: { readonly clock: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const state = await readTail(path, memoryMib * MIB)
  signal.throwIfAborted()
  const { restoredState } = paths
  await rm(restoredState, { force: true })
  try {
    await makeRuntimeFile(restoredState, state, userId)
    const body = {
      snapshot_path: restoredState,
      mem_backend: { backend_type: 'File', backend_path: path },
      vsock_override: { uds_path: paths.agent },
      network_overrides:
        tapDevice === undefined ? [] : [{ iface_id: NETWORK_INTERFACE, host_dev_name: tapDevice }],
      resume_vm: false,
      ...(clock ? { clock_realtime: true } : {}),
    }
    const load = { method: 'PUT', target: '/snapshot/load', body, withinMs: limits.restoreMs } as const
    await askFirecracker(paths.api, load, signal)
  } finally {
    await rm(restoredState, { force: true })
  }
}

/** Reads what follows the memory; empty if the file was cut short, which Firecracker then refuses. */
async function readTail(path: string, from: number): Promise<Buffer> {
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const length = Math.max(0, (await file.stat()).size - from)
    if (length > limits.firecrackerStateBytesMax)
      throw new MonitorRefusal({ desc: `the saved guest has ${length} bytes after its memory` })
    const content = Buffer.alloc(length)
    const { bytesRead } = await file.read(content, 0, length, from)
    return content.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
