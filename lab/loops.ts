import { readFileSync } from 'node:fs'
import { run } from '../tools/process.ts'
import { isAlive } from './state.ts'
import type { LabState } from './state.ts'

/** Number of loop device nodes in a lab; all labs of a machine draw from the same numbers. */
export const LOOP_NODES = 64

/** One mount of /proc/PID/mountinfo (proc_pid_mountinfo(5)): its device as `major:minor`, and its mount point. */
interface Mount {
  readonly device: string
  readonly target: string
}

function mountsOf(process: number | 'self'): Mount[] {
  let text: string
  try {
    text = readFileSync(`/proc/${process}/mountinfo`, 'utf8')
  } catch {
    return []
  }
  return text.split('\n').map((line) => {
    const [, , device = '', , target = ''] = line.split(' ')
    return { device, target }
  })
}

/** Returns whether something is mounted at exactly this path on this machine. */
export function isMounted(target: string): boolean {
  return mountsOf('self').some((mount) => mount.target === target)
}

/**
 * Returns the file systems that only this lab has: its root, and those mounted only inside it. Call it before the lab
 * ends; {@link freeLoops} needs the result afterwards.
 */
export function ownDevices(state: LabState, root: string): Set<string> {
  const here = mountsOf('self').filter((mount) => mount.device !== '')
  const shared = new Set(here.filter(({ target }) => target !== root).map(({ device }) => device))
  const inside = isAlive(state.leader) && state.leader !== undefined ? mountsOf(state.leader.pid) : []
  const own = [...here.filter(({ target }) => target === root), ...inside].map(({ device }) => device)
  return new Set(own.filter((device) => device !== '' && !shared.has(device)))
}

/**
 * Detaches the loop devices whose files lie on these file systems, and those on top of them. Loop devices belong to the
 * whole machine. If a test made one without ever mounting it, it stays after its lab has ended.
 */
export async function freeLoops(devices: ReadonlySet<string>): Promise<void> {
  const columns = 'NAME,MAJ:MIN,BACK-MAJ:MIN'
  const listing = await run(['losetup', '--list', '--json', '--output', columns])
  if (listing.stdout.trim() === '') return
  const { loopdevices } = JSON.parse(listing.stdout) as { loopdevices: Record<string, string | null>[] }
  const loops = loopdevices.map((loop) => ({
    name: loop['name'] ?? '',
    device: loop['maj:min']?.trim() ?? '',
    backing: loop['back-maj:min']?.trim() ?? '',
  }))
  for (const { name } of stackedOn(devices, loops).toReversed()) await run(['losetup', '--detach', name])
}

interface Loop {
  readonly name: string
  readonly device: string
  readonly backing: string
}

/**
 * Returns the loop devices on these file systems, then those whose files are on file systems of the former, and so on.
 */
function stackedOn(devices: ReadonlySet<string>, loops: readonly Loop[]): Loop[] {
  const direct = loops.filter(({ backing }) => devices.has(backing))
  if (direct.length === 0) return []
  const rest = loops.filter((loop) => !direct.includes(loop))
  return [...direct, ...stackedOn(new Set(direct.map(({ device }) => device)), rest)]
}
