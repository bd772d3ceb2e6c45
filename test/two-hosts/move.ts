/** The requests of a controller that moves a VM. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Vm } from '../../lab/controller-client.ts'
import type { LabHost } from './lab-host.ts'

export type Move = {
  readonly vm: string
  readonly migration: string
  readonly from: LabHost
  readonly to: LabHost
  readonly mode?: 'live' | 'cold'
  readonly expiresInMs?: number
}

const OFFER_MS = 600_000
const LOOK_EVERY_MS = 5

/** Offers the VM at its source. */
export const offer = ({
  vm,
  migration,
  from,
  to,
  mode = 'live',
  expiresInMs = OFFER_MS,
}: Move): Promise<Vm> =>
  from.controller.mutate('PUT', `/v1/vms/${vm}/migration`, {
    migration_id: migration,
    node: to.node,
    mode,
    expires_at: new Date(Date.now() + expiresInMs).toISOString(),
  })

/** Has the destination take the VM. */
export const take = ({ vm, migration, from, to }: Move): Promise<Vm> =>
  to.controller.mutate('PUT', `/v1/vms/${vm}/arrival`, {
    migration_id: migration,
    source_url: `https://${from.address}:9001`,
  })

/** Waits until a VM is as wanted, and looks often: a guest may be down meanwhile. Throws after the bound. */
export async function seen(
  host: LabHost,
  vm: string,
  wanted: (observed: Vm['observed']) => boolean,
  boundMs = 60_000,
): Promise<Vm> {
  const deadline = performance.now() + boundMs
  let last: unknown
  while (performance.now() < deadline) {
    try {
      const found = await host.controller.getVm(vm)
      if (wanted(found.observed)) return found
      last = found.observed
    } catch (error) {
      // The daemon may be down for a while.
      last = error
    }
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error(`${vm} at ${host.node} is not as wanted within ${boundMs} ms: ${JSON.stringify(last)}`, {
    cause: last,
  })
}

export const hasArrived = ({ arrival }: Vm['observed']): boolean => arrival?.stage === 'released'
