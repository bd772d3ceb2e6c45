import assert from 'node:assert/strict'
import { until } from './until.ts'
import type { WindowSize } from '../../src/core/console/window-size.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Consoles } from '../../src/ports/consoles.ts'

/** What of consoles may be asked from another process. */
export type AskedConsoles = Omit<Consoles, 'session' | 'lastSession' | 'onSession' | 'onPlace'>

/** What one listener heard of one session. */
export type Heard = {
  readonly session: string
  /** Where it began to read. */
  readonly from: number
  text: string
  /** How much more there was to read when the end was told. */
  unreadAtEnd?: number
  rooms: number
}

/** A session as it is, with its output from an offset on. */
export type SessionView = {
  readonly session: string
  readonly start: number
  readonly end: number
  readonly text: string
  readonly inputWaiting: number
}

type Soon<T> = T | Promise<T>

/** Consoles under test, and what guests, viewers, systemd and restarts of the daemon do to them. */
export type ConsolesStage = {
  /** Of the daemon's present life. */
  consoles(): AskedConsoles
  view(id: VmId, since: number): Soon<SessionView | undefined>
  /** What the newest session said, over or not. */
  last(id: VmId): Soon<string | undefined>
  /** What a follower heard of each session of a VM in the daemon's present life. */
  heard(id: VmId): Soon<readonly Heard[]>
  /** VMs that were told of a free place in the daemon's present life, in order. */
  offered(): Soon<readonly VmId[]>
  type(id: VmId, text: string): Soon<void>
  resize(id: VmId, size: WindowSize): Soon<void>
  /** A program on the VM's terminal writes, reads all that was typed, or does not, and looks at its window. */
  say(id: VmId, text: string): Soon<void>
  readInput(id: VmId, reading: boolean): Soon<void>
  typed(id: VmId): Soon<string>
  window(id: VmId): Soon<WindowSize>
  /** systemd loses what it kept. */
  drop(id: VmId): Soon<void>
  /** systemd keeps nothing more, until told otherwise. */
  refuse(refusing: boolean): Soon<void>
  /** systemd has so many places from now on. */
  limit(places: number): Soon<void>
  /** The daemon dies without a word, and the next one adopts what is stored; resolves with how many that were. */
  restart(): Soon<number>
}

export const web = 'web-1' as VmId
export const other = 'web-2' as VmId
export const third = 'web-3' as VmId

/** All that is kept, once that is so of it. */
export const history = async (
  stage: ConsolesStage,
  id: VmId,
  isDone: (text: string) => boolean,
): Promise<string> => until(async () => (await stage.view(id, 0))?.text ?? '', isDone, 5000)

export async function viewOf(stage: ConsolesStage, id: VmId, since = 0): Promise<SessionView> {
  const view = await stage.view(id, since)
  assert.ok(view !== undefined, `there is no session of ${id}`)
  return view
}

/** The newest session that the follower of this life knows, once that is so of it. */
export async function heardOf(
  stage: ConsolesStage,
  id: VmId,
  isSo: (heard: Heard) => boolean,
): Promise<Heard> {
  const all = await until(
    () => stage.heard(id),
    (sessions) => sessions.slice(-1).some(isSo),
    5000,
  )
  return all.at(-1) as Heard
}
