import {
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { cachePath } from '../tools/paths.ts'
import { discard } from '../tools/publish.ts'

/** A process by id and start time: the id alone may by now belong to another process. */
export interface ProcessRef {
  readonly pid: number
  /** Field 22 of /proc/PID/stat: clock ticks after the machine's boot. */
  readonly startTicks: string
}

/** The record of a lab, so that any later command can enter it and end it. */
export interface LabState {
  readonly name: string
  /** The lab's own folder: its overlay layers, its mount point, its log. */
  readonly folder: string
  /** Cache folders that the lab is built on: its root and its guest images. */
  readonly bases: readonly string[]
  /** systemd-nspawn, and PID 1 of the lab once it runs. */
  readonly container?: ProcessRef
  readonly leader?: ProcessRef
  readonly startedAt: string
}

const FILE = 'state.json'
/** How long the cache keeps a root or guest that no lab uses: several checkouts may take turns. */
const KEEP_UNUSED_MS = 2 * 24 * 3600 * 1000
const NAME = /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/

/** Returns the folder of a lab by name. Throws on a name that could not be a host name. */
export function labFolder(name: string): string {
  if (!NAME.test(name)) throw new Error(`a lab's name is lower case letters, digits and dashes, not ${name}`)
  return path.join(cachePath('run'), name)
}

/** Replaces a lab's state file atomically. */
export function writeState(state: LabState): void {
  const file = path.join(state.folder, FILE)
  writeFileSync(`${file}.new`, `${JSON.stringify(state, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** Reads the record of a lab; undefined if there is none of that name. */
export function readState(name: string): LabState | undefined {
  const file = path.join(labFolder(name), FILE)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as LabState) : undefined
}

/** Returns the names of all labs that have a folder, running or not. */
export function labNames(): string[] {
  return readdirSync(cachePath('run')).filter((name) => NAME.test(name))
}

/** Marks a cache entry as used now. Drops entries beside it that were not used for long and are not used by a lab. */
export function useCached(folder: string): void {
  const now = new Date()
  utimesSync(folder, now, now)
  const used = new Set(labNames().flatMap((name) => readState(name)?.bases ?? []))
  for (const name of readdirSync(path.dirname(folder))) {
    const other = path.join(path.dirname(folder), name)
    // Another process may have removed or renamed it.
    const usedAtMs = statSync(other, { throwIfNoEntry: false })?.mtimeMs ?? now.getTime()
    if (now.getTime() - usedAtMs > KEEP_UNUSED_MS && !used.has(other)) discard(other)
  }
}

/** Returns a reference to a process that runs now; undefined if there is none. */
export function refer(pid: number): ProcessRef | undefined {
  const startTicks = startTicksOf(pid)
  return startTicks === undefined ? undefined : { pid, startTicks }
}

/** Returns whether exactly this process still runs (a zombie does not). */
export function isAlive(ref: ProcessRef | undefined): boolean {
  return ref !== undefined && startTicksOf(ref.pid) === ref.startTicks
}

function startTicksOf(pid: number): string | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
  // The second field is the command in brackets and may hold anything, brackets and blanks too: see proc_pid_stat(5).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? undefined : fields[19]
}
