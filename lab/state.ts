import {
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { cachePath } from '../tools/paths.ts'

/** A process by id and start time, since an id alone may by now belong to someone else's process. */
export interface ProcessRef {
  readonly pid: number
  /** Field 22 of /proc/PID/stat: clock ticks after the machine's boot. */
  readonly startTicks: string
}

/** What is written down about a lab, so that any later command can enter it and end it. */
export interface LabState {
  readonly name: string
  /** The lab's own folder: its overlay layers, its mount point, its log. */
  readonly folder: string
  /** What the lab stands on in the cache: its root and its guest images. */
  readonly bases: readonly string[]
  /** systemd-nspawn, and PID 1 of the lab once it runs. */
  readonly container?: ProcessRef
  readonly leader?: ProcessRef
  readonly startedAt: string
}

const FILE = 'state.json'
/** How long a cached root or guest that no lab stands on is kept: several checkouts may take turns. */
const KEEP_UNUSED_MS = 2 * 24 * 3600 * 1000
const NAME = /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/

/** The folder of a lab by name. Throws on a name that could not be a host name. */
export function labFolder(name: string): string {
  if (!NAME.test(name)) throw new Error(`a lab's name is lower case letters, digits and dashes, not ${name}`)
  return path.join(cachePath('run'), name)
}

/** Replaces a lab's state file in one move. */
export function writeState(state: LabState): void {
  const file = path.join(state.folder, FILE)
  writeFileSync(`${file}.new`, `${JSON.stringify(state, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** What is written down about a lab; undefined when there is none of that name. */
export function readState(name: string): LabState | undefined {
  const file = path.join(labFolder(name), FILE)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as LabState) : undefined
}

/** The names of all labs that have a folder, running or not. */
export function labNames(): string[] {
  return readdirSync(cachePath('run')).filter((name) => NAME.test(name))
}

/** Marks a cache entry as used now, and drops entries beside it that nobody has used for long and no lab stands on. */
export function useCached(folder: string): void {
  const now = new Date()
  utimesSync(folder, now, now)
  const used = new Set(labNames().flatMap((name) => readState(name)?.bases ?? []))
  for (const name of readdirSync(path.dirname(folder))) {
    const other = path.join(path.dirname(folder), name)
    const unusedMs = now.getTime() - statSync(other).mtimeMs
    if (unusedMs > KEEP_UNUSED_MS && !used.has(other)) rmSync(other, { recursive: true, force: true })
  }
}

/** A reference to a process that runs now; undefined when there is none. */
export function refer(pid: number): ProcessRef | undefined {
  const startTicks = startTicksOf(pid)
  return startTicks === undefined ? undefined : { pid, startTicks }
}

/** Whether the very process that was referred to still runs (a zombie does not). */
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
