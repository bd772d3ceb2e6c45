import assert from 'node:assert/strict'
import { until } from './until.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Consoles, MovedConsole } from '../../src/ports/consoles.ts'

/** The part of consoles that another process can call. */
export type AskedConsoles = Omit<
  Consoles,
  'session' | 'lastSession' | 'history' | 'passInput' | 'onSession' | 'onPlace'
>

/** Output that one listener heard of one session. */
export type Heard = {
  readonly session: string
  /** Offset from which the listener read. */
  readonly from: number
  text: string
  /** Bytes that were still unread when the end was reported. */
  unreadAtEnd?: number
  rooms: number
}

/** State of a session, with its output from an offset on. */
export type SessionView = {
  readonly session: string
  readonly start: number
  readonly end: number
  readonly text: string
  readonly inputWaiting: number
}

type Soon<T> = T | Promise<T>

/** Consoles under test, and the actions of guests, viewers, systemd and restarts of the daemon on them. */
export type ConsolesStage = {
  /** Returns the consoles of the daemon's present life. */
  consoles(): AskedConsoles
  view(id: VmId, since: number): Soon<SessionView | undefined>
  /** Returns the output of the newest session, whether it is over or not. */
  last(id: VmId): Soon<string | undefined>
  moved(id: VmId): Soon<MovedConsole | undefined>
  /** Returns what a follower heard of each session of a VM in the daemon's present life. */
  heard(id: VmId): Soon<readonly Heard[]>
  /** Returns the VMs that were offered a free place in the daemon's present life, in order. */
  offered(): Soon<readonly VmId[]>
  type(id: VmId, text: string): Soon<void>
  passInput(id: VmId): Soon<void>
  resize(id: VmId, size: WindowSize): Soon<void>
  /** A program on the VM's terminal writes, starts or stops reading its input, and reports its window. */
  say(id: VmId, text: string): Soon<void>
  readInput(id: VmId, reading: boolean): Soon<void>
  typed(id: VmId): Soon<string>
  window(id: VmId): Soon<WindowSize>
  /** Makes systemd lose the console that it kept. */
  drop(id: VmId): Soon<void>
  /** Makes systemd refuse to store further consoles, until set back. */
  refuse(refusing: boolean): Soon<void>
  /** Sets how many places systemd has from now on. */
  limit(places: number): Soon<void>
  /** Kills the daemon without warning; the next one adopts the stored consoles. Resolves with their number. */
  restart(): Soon<number>
}

export const web = 'web-1' as VmId
export const other = 'web-2' as VmId
export const third = 'web-3' as VmId

/** Waits until `isDone` accepts the kept output, and returns it. */
export const history = async (
  stage: ConsolesStage,
  id: VmId,
  isDone: (text: string) => boolean,
): Promise<string> => until(async () => (await stage.view(id, 0))?.text ?? '', isDone)

export async function viewOf(stage: ConsolesStage, id: VmId, since = 0): Promise<SessionView> {
  const view = await stage.view(id, since)
  assert.ok(view !== undefined, `there is no session of ${id}`)
  return view
}

/** Waits until `isSo` accepts the newest session that the follower of this life knows, and returns it. */
export async function heardOf(
  stage: ConsolesStage,
  id: VmId,
  isSo: (heard: Heard) => boolean,
): Promise<Heard> {
  const all = await until(
    () => stage.heard(id),
    (sessions) => sessions.slice(-1).some(isSo),
  )
  return all.at(-1) as Heard
}
