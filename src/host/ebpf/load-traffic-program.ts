import { createHash } from 'node:crypto'
import { closeSync, mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import path from 'node:path'
import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import { loadAndPin, openPin, programId } from './libbpf.ts'
import { LAYOUT, MAP_NAMES, MAPS } from './traffic-maps.ts'
import { mountFilesystem } from '../ffi/mount.ts'
import type { BpfMap } from './libbpf.ts'
import type { MapName } from './traffic-maps.ts'

export type LoadedTrafficProgram = {
  readonly program: { readonly fd: number; readonly id: number }
  readonly maps: Readonly<Record<MapName, BpfMap>>
}

/** SEC("tc") of bpf/traffic.bpf.c. */
const PROGRAM = 'traffic'
const PIN_PREFIX = 'program-'

/**
 * Opens the program and its maps from their pins, or loads them. A pin's name contains the digest of the object. So a
 * daemon finds its own program again, and an upgraded daemon loads its own program over the same maps. Throws
 * ErrnoError, and an Error that says why the kernel refused the program.
 */
export function loadTrafficProgram(object: Uint8Array, directory: string): LoadedTrafficProgram {
  ensureBpfFilesystem(directory)
  const pinDirectory = path.join(directory, LAYOUT)
  mkdirSync(pinDirectory, { recursive: true, mode: 0o700 })
  const name = `${PIN_PREFIX}${createHash('sha256').update(object).digest('hex').slice(0, 16)}`
  const programPath = path.join(pinDirectory, name)
  const maxEntries = { traffic_events: limits.trafficEventsBytes }
  const pinned = openPin(programPath)
  if (pinned === undefined) loadAndPin({ object, pinDirectory, program: PROGRAM, programPath, maxEntries })
  const fd = pinned ?? openPin(programPath)
  assert(fd !== undefined, `${programPath} is pinned`)
  const opened = [fd]
  try {
    // Programs that are attached to devices live until they are replaced.
    for (const other of readdirSync(pinDirectory))
      if (other.startsWith(PIN_PREFIX) && other !== name) rmSync(path.join(pinDirectory, other))
    const maps = MAP_NAMES.map((map) => {
      const found = openMap(path.join(pinDirectory, map), map)
      opened.push(found.fd)
      return [map, found]
    })
    return {
      program: { fd, id: programId(fd) },
      maps: Object.fromEntries(maps) as LoadedTrafficProgram['maps'],
    }
  } catch (error) {
    opened.forEach(closeSync)
    throw error
  }
}

/** Closes the descriptors. The program stays pinned and attached. */
export function closeTrafficProgram({ program, maps }: LoadedTrafficProgram): void {
  for (const { fd } of [program, ...Object.values(maps)]) closeSync(fd)
}

function openMap(pin: string, name: MapName): BpfMap {
  const fd = openPin(pin)
  if (fd === undefined) throw new Error(`${pin} is missing beside its program`)
  return { fd, ...MAPS[name] }
}

/** BPF_FS_MAGIC of linux/magic.h. */
const BPF_FILESYSTEM = 0xcafe4a11

/**
 * Mounts a BPF file system of our own, because not every host has one. Pinned objects live until it is unmounted. Only
 * root can open it. Throws ErrnoError.
 */
function ensureBpfFilesystem(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  if (statfsSync(directory).type === BPF_FILESYSTEM) return
  mountFilesystem('bpf', directory, 'mode=0700')
}
