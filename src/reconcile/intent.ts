import { createHash } from 'node:crypto'
import { renderSeed } from '../core/disks/seed.ts'
import type { TapSpec } from '../core/network/tap.ts'
import type { Seed } from '../core/disks/seed.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Host } from '../ports/host.ts'
import type { VmInputs } from '../core/vm/create.ts'

/** The host objects that a record asks for. */
export type Intent = { readonly seed: Seed; readonly tap?: TapSpec }

export function intentOf(
  { sshPublicKey }: Pick<Host, 'sshPublicKey'>,
  record: VmRecord,
  inputs: VmInputs,
): Intent {
  const { network } = record.desired
  const seed = renderSeed(
    {
      id: record.id,
      // A VM that was deleted and created again with the same id is another instance.
      instanceId: `${record.id}-${record.createdAtMs}`,
      sshAuthorizedKeys: inputs.sshAuthorizedKeys,
      daemonSshKey: sshPublicKey,
      ...(inputs.userData === undefined ? {} : { userData: inputs.userData }),
      ...(network === undefined ? {} : { network }),
    },
    (text) => createHash('sha256').update(text).digest('hex'),
  )
  const tap = tapSpecOf(record)
  return tap === undefined ? { seed } : { seed, tap }
}

/** Returns the VM's tap; undefined for a VM without network. */
export function tapSpecOf({ id, host, desired: { network } }: VmRecord): TapSpec | undefined {
  if (network === undefined) return undefined
  return {
    device: host.device,
    vmId: id,
    userId: host.userId,
    guestMac: network.macAddress,
    ...(network.ipv4Address === undefined ? {} : { ipv4Address: network.ipv4Address }),
    ...(network.ipv6Address === undefined ? {} : { ipv6Address: network.ipv6Address }),
    ...(network.bandwidth === undefined ? {} : { bandwidth: network.bandwidth }),
    ...(network.firewall === undefined ? {} : { inbound: network.firewall.inbound }),
  }
}
