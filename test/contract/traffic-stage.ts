import assert from 'node:assert/strict'
import { HostFault } from '../../src/core/errors.ts'
import type { WatchedTraffic } from '../../src/core/world/network-state.ts'
import type { HostIdentity, UserId } from '../../src/core/ids.ts'
import type { Traffic } from '../../src/ports/traffic.ts'
import { otherSpec, tapSpec } from './taps-stage.ts'

/** A host under test, with two VMs' devices to make. */
export type TrafficStage = {
  /** Starts the traffic of a new daemon; the previous daemon may have ended in any way. */
  daemon(): Traffic
  makeDevice(subject: HostIdentity): Promise<void> | void
  deleteDevice(subject: HostIdentity): Promise<void> | void
  /** Attaches a reader behind the device. */
  attach(subject: HostIdentity): Promise<void> | void
  /** Sends a packet from the host to a guest. */
  send(subject: HostIdentity, name: string): Promise<void> | void
  /** Sends a packet that is configured not to count. */
  sendIgnored(subject: HostIdentity, name: string): Promise<void> | void
  /** Names of the packets that the reader behind the device got, in order. */
  given(subject: HostIdentity): Promise<readonly string[]> | readonly string[]
  /** Lets time pass. */
  pass(ms: number): void
}

export const guest: HostIdentity = tapSpec
export const otherGuest: HostIdentity = otherSpec

export const isFault = (error: unknown): boolean =>
  error instanceof HostFault && error.code === 'traffic_failed'
export const deliver = { deliver: true }
export const nothing = { delivered: 0, dropped: 0 }

export async function watched(traffic: Traffic, subject = guest): Promise<WatchedTraffic> {
  const state = await traffic.inspect(subject)
  return state.kind === 'watched' ? state : assert.fail(`${subject.device} is ${state.kind}`)
}

/** VMs that were reported to a daemon as wanted; with a subject, to a watcher of that guest. */
export function listen(traffic: Traffic, only?: HostIdentity): UserId[] {
  const wanted: UserId[] = []
  traffic.watch((userId) => wanted.push(userId), only)
  return wanted
}

export const has = (count: number) => (wanted: readonly UserId[]) => wanted.length >= count

/** Registers a promise of every implementation of traffic. */
export type Promised = (what: string, body: (stage: TrafficStage) => Promise<void>) => void
