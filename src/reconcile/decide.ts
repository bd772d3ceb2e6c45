import { given } from '../lib/given.ts'
import { plan } from '../core/plan/plan.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { Plan } from '../core/plan/step.ts'
import type { World } from '../core/world/world.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Host } from '../ports/host.ts'
import { createHash } from 'node:crypto'
import { seedOf } from '../core/disks/seed.ts'
import type { TapSpec } from '../core/network/tap.ts'
import type { Seed } from '../core/disks/seed.ts'
import type { VmInputs } from '../core/vm/create.ts'

/** Facts that only this process knows. */
export type ProcessFacts = Pick<
  Facts,
  'maySave' | 'mayRestore' | 'guestsAtShutdown' | 'drain' | 'silentMs' | 'memory' | 'memoryIsShort'
>

/** Returns the facts of this host and moment. */
export function factsOf(
  host: Host,
  { monitor }: Pick<VmRecord, 'monitor'>,
  { seed, tap, ...own }: Intent & ProcessFacts,
): Facts {
  return {
    nowMs: host.clock.now(),
    ...own,
    bootId: host.bootId,
    capabilities: host.monitors[monitor].capabilities,
    seedDigest: seed.digest,
    ...given({ tap }),
  }
}

/** Plans with the facts. */
export function decide(
  host: Host,
  record: VmRecord,
  seen: { readonly world: World; readonly intent: Intent; readonly own: ProcessFacts },
): Plan {
  return plan(record, seen.world, factsOf(host, record, { ...seen.intent, ...seen.own }))
}

/** The host objects that a record asks for. */
export type Intent = { readonly seed: Seed; readonly tap?: TapSpec }

export function intentOf(
  { sshPublicKey }: Pick<Host, 'sshPublicKey'>,
  record: VmRecord,
  inputs: VmInputs,
): Intent {
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  const seed = seedOf(record, inputs, { daemonSshKey: sshPublicKey, sha256 })
  const tap = tapSpecOf(record)
  return tap === undefined ? { seed } : { seed, tap }
}

/** Returns the VM's tap; undefined for a VM without network. */
export function tapSpecOf({
  id,
  host,
  desired: { network },
}: Pick<VmRecord, 'id' | 'host' | 'desired'>): TapSpec | undefined {
  if (network === undefined) return undefined
  const { macAddress: guestMac, ipv4Address, ipv6Address, ipv6Prefix, bandwidth, firewall } = network
  return {
    device: host.device,
    vmId: id,
    userId: host.userId,
    guestMac,
    ...given({ ipv4Address, ipv6Address, ipv6Prefix, bandwidth, ...firewall }),
  }
}
