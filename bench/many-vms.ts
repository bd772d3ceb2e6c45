import { setTimeout as delay } from 'node:timers/promises'
import { createFromWire } from '../src/api/wire/vm-from-wire.ts'
import { createVm } from '../src/commands/vm/create-vm.ts'
import { loadConfig } from '../src/config/config.ts'
import { Store } from '../src/store/store.ts'
import { call, mutate } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { ready, sh } from '../lab/inside/shell.ts'
import { until } from '../lab/inside/until.ts'
import { composed, listening } from '../test/composed.ts'
import { newOperationId } from '../src/log/log.ts'
import { FakeCapacity } from '../test/fakes/fake-capacity.ts'
import { FakeClock } from '../test/fakes/fake-clock.ts'
import { FakeHost } from '../test/fakes/fake-host.ts'
import type { CommandContext } from '../src/commands/context.ts'
import type { VmId } from '../src/core/ids.ts'
import type { CreateVmWire } from '../src/api/wire/requests.ts'

const STATE = '/var/lib/vmhostd'
const USER_IDS = { first: 600_000, count: 50_000 }
/** For a start whose first passes make disks or taps for 10,000 VMs. */
export const START_BOUND_MS = 600_000
const SETTLE_BOUND_MS = 180_000
/** Between two looks at all VMs: less if few of them are missing, so that the looks take little from the daemon. */
const LOOK_MS = { forEachMissing: 5, min: 250, max: 2000 }

/** Returns ids in order, such as `bench-0007`. */
const numbered = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(4, '0')}`)

/** A line of `GET /v1/vm-states`. */
export type VmState = {
  readonly id: string
  readonly state: string
  readonly generations: { readonly desired: number; readonly observed: number }
}

type Page = { readonly items: readonly VmState[]; readonly next_cursor?: string }

/**
 * Writes this many stopped VMs into the daemon's store while it is down, and starts it again. They are more than this
 * host has memory for. Returns their ids when all are settled.
 */
export async function fillStore(
  prefix: string,
  count: number,
  requestOf: (index: number) => object = () => guestRequest({ power: 'stopped' }),
): Promise<string[]> {
  const ids = numbered(prefix, count)
  const { length: others } = await vmStates()
  await inStore((context) => {
    for (const [index, id] of ids.entries()) {
      const request = createFromWire(requestOf(index) as CreateVmWire)
      if (!request.ok) throw new Error('the guest of the lab is not a valid request')
      const created = createVm(context, id as VmId, request.value)
      if (!created.ok) throw new Error(`${id}: ${JSON.stringify(created.error)}`)
    }
  })
  await allSettled(others + count)
  return ids
}

/** Works on the daemon's store while it is down, and starts it again. Capacity is not a limit there. */
export async function inStore(work: (context: CommandContext) => void | Promise<void>): Promise<void> {
  await sh('systemctl', 'stop', 'vmhostd')
  const store = new Store(STATE, USER_IDS)
  const host = new FakeHost(new FakeClock({ nowMs: Date.now() }), store.storeId)
  const instead = { capacity: new FakeCapacity(), actors: listening(() => {}) }
  await work(composed({ store, host, settings: loadConfig(), newOperationId, instead }).commands)
  store.close()
  await sh('systemctl', 'start', 'vmhostd')
  await ready(START_BOUND_MS)
}

/** Waits until the daemon has no work left for any of its `count` VMs. */
export const allSettled = (count: number): Promise<void> =>
  allVms('settled', count, ({ generations }) => generations.desired === generations.observed)

/** Waits until so many VMs are as wanted. Asks for states alone. */
export async function allVms(what: string, count: number, isSo: (vm: VmState) => boolean): Promise<void> {
  const look = async (): Promise<true | undefined> => {
    const missing = count - (await vmStates()).filter(isSo).length
    if (missing === 0) return true
    await delay(Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, missing * LOOK_MS.forEachMissing)))
    return undefined
  }
  await until(`${count} VMs are ${what}`, look, SETTLE_BOUND_MS)
}

/** Makes VMs whose guests never ran: each has a unit, a monitor and a console, and none uses the host's processors. */
export async function makePaused(prefix: string, count: number): Promise<string[]> {
  const ids = numbered(prefix, count)
  const disk = { size_mib: 64 }
  const compute = { cpu_millicores: 100, memory_mib: 64, sleep_after_idle_seconds: 0 }
  for (const id of ids)
    await mutate('PUT', `/v1/vms/${id}`, { ...guestRequest({ power: 'paused' }), compute, disk })
  await allSettled(count)
  return ids
}

export async function removeAll(ids: readonly string[]): Promise<void> {
  for (const id of ids) await mutate('DELETE', `/v1/vms/${id}`)
  const gone = async (): Promise<true | undefined> => ((await vmStates()).length === 0 ? true : undefined)
  await until('the VMs are gone', gone, SETTLE_BOUND_MS)
}

/** Returns the state of every VM, from all pages. */
async function vmStates(): Promise<VmState[]> {
  const states: VmState[] = []
  let next: string | undefined
  do {
    const cursor = next === undefined ? '' : `&cursor=${next}`
    const { body } = await call('GET', `/v1/vm-states?limit=1000${cursor}`)
    const page = body as unknown as Page
    states.push(...page.items)
    next = page.next_cursor
  } while (next !== undefined)
  return states
}
