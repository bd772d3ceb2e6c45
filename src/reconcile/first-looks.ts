/** Looks of a start: first at VMs with a guest or with work to do, later at VMs that rest. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { tapDrift } from '../core/network/tap.ts'
import { hasNoGuest, needsNoLook } from '../core/vm/at-rest.ts'
import { areHeld } from '../core/world/network-state.ts'
import { given } from '../lib/given.ts'
import { partsOf } from '../lib/parts.ts'
import { warnOfFault } from '../log/log.ts'
import { tapSpecOf } from './intent.ts'
import type { VmId } from '../core/ids.ts'
import type { TapSpec } from '../core/network/tap.ts'
import type { Host } from '../ports/host.ts'
import type { PassContext, WorkerContext } from './context.ts'

export type Looks = {
  /** Resolves when each of these VMs has been looked at. */
  readonly now: (ids: readonly VmId[]) => Promise<void>
  readonly later: (id: VmId) => void
}

/**
 * Looks at VMs at a start. A VM rests, and is looked at later, if all of this is true:
 *
 * - Its record says that it is settled without a guest.
 * - Listings of the host show no unit for it, but its disk.
 * - If it sleeps, its tap is as it must be, its frames are held, may pass the firewall, and none has come.
 * - If it is stopped, no frames are held. Held frames mean that its guest fell asleep after the record was written.
 *
 * If a listing fails, each VM is looked at now. The look at a tap takes some 0.1 ms,
 * and one at a disk ten times as much.
 */
export async function firstLooks(context: WorkerContext, looks: Looks): Promise<void> {
  const resting: Resting[] = []
  const due: Promise<void>[] = []
  for (const some of partsOf([...context.store.vms.states()], limits.recordsPerTurn)) {
    const now: VmId[] = []
    for (const [id, state] of some) {
      // The record of a VM with a guest is read by its pass.
      const rest = hasNoGuest(state) ? restOnRecord(context, id) : undefined
      if (rest === undefined) now.push(id)
      else resting.push(rest)
    }
    due.push(looks.now(now))
    await nextTurn()
  }
  if (resting.length > 0) await lookAtResting(context, resting, looks)
  await Promise.all(due)
}

/** A VM that rests by its record, and what must be seen of it on the host. */
type Resting = {
  readonly id: VmId
  readonly isAsleep: boolean
  /** The tap as it must be; absent if the VM has no network. */
  readonly tap?: TapSpec
}

function restOnRecord({ store, memory }: WorkerContext, id: VmId): Resting | undefined {
  const record = store.vms.readable(id)
  if (record === undefined || !needsNoLook(record) || memory.isToLend(record, record.observed.state))
    return undefined
  return { id, isAsleep: record.observed.state === 'sleeping', ...given({ tap: tapSpecOf(record) }) }
}

async function lookAtResting(context: PassContext, resting: readonly Resting[], looks: Looks): Promise<void> {
  const listed = await listHost(context)
  // In turns: the look at one VM puts a firewall in force that the last daemon left unverified.
  for (const some of partsOf(resting, limits.recordsPerTurn)) {
    const due: VmId[] = []
    for (const one of some) {
      if (listed !== undefined && (await restsOnHost(context.host, one, listed))) looks.later(one.id)
      else due.push(one.id)
    }
    await looks.now(due)
    await nextTurn()
  }
}

type Listed = {
  readonly active: ReadonlySet<VmId>
  readonly withDisk: ReadonlySet<VmId>
}

async function listHost({ host: { units, storage }, log }: PassContext): Promise<Listed | undefined> {
  try {
    const [active, disks] = await Promise.all([units.active(), storage.list()])
    return { active: new Set(active), withDisk: new Set(disks) }
  } catch (error) {
    warnOfFault(log, error, 'each VM is looked at, because the host could not be listed')
    return undefined
  }
}

async function restsOnHost(
  host: Host,
  { id, isAsleep, tap }: Resting,
  { active, withDisk }: Listed,
): Promise<boolean> {
  if (active.has(id) || !withDisk.has(id)) return false
  if (tap === undefined) return true
  try {
    return isAsleep ? await isGuarded(host, tap) : !areHeld(await host.traffic.inspect(tap))
  } catch (error) {
    if (error instanceof HostFault) return false
    throw error
  }
}

/** Returns whether traffic for a sleeping guest may reach it, is held, and has not come yet. */
async function isGuarded({ firewall, taps, traffic }: Host, spec: TapSpec): Promise<boolean> {
  const { device, vmId } = spec
  const passage = await firewall.inspect(device)
  if (passage.kind !== 'intact' || passage.rule === undefined) return false
  const tap = await taps.inspect(device, vmId)
  if (tap.kind !== 'present' || tapDrift(spec, tap.facts).length > 0) return false
  const seen = await traffic.inspect(spec)
  return areHeld(seen) && seen.wantedSinceMs === undefined
}
