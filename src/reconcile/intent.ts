import { createHash } from 'node:crypto'
import { seedOf } from '../core/disks/seed.ts'
import { given } from '../lib/given.ts'
import type { Seed } from '../core/disks/seed.ts'
import type { TapSpec } from '../core/network/tap.ts'
import type { VmInputs } from '../core/vm/create.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Host } from '../ports/host.ts'

/** The host objects that a record asks for. */
export type Intent = { readonly seed: Seed; readonly tap?: TapSpec }

/** Returns what the record asks for on this host. */
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
