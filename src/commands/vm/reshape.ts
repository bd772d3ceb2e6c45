import { isDeepStrictEqual } from 'node:util'
import { changed } from '../../lib/changed.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import {
  refuseAddresses,
  refuseLastAddress,
  refuseLonePrefix,
  refuseReadiness,
  refuseSleep,
  withNameServers,
} from './check-network.ts'
import { isStopped, notStopped, storeDesired } from './store-desired.ts'
import { changedExit } from '../../core/vm/exit-policy.ts'
import type { ChangeOf } from '../../lib/changed.ts'
import type { Compute, Desired, Disk, Network, ReadinessCheck } from '../../core/desired.ts'
import type { VmId, MacAddress } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult, Refusal } from '../context.ts'
import { guestMac } from '../../core/network/tap.ts'
import { nextInstance } from '../../core/desired.ts'
import type { ComputeChange, ExitChange, InputsChange, SetNetwork, VmInputs } from '../../core/vm/create.ts'
import type { Addresses } from './check-network.ts'

/** Stores CPU, memory and idle timeout. */
export const setCompute = (context: CommandContext, id: VmId, change: ComputeChange): CommandResult =>
  reshape(context, id, {
    reason: 'compute',
    shape: ({ compute, disk }) => ({ compute: changed<Compute>(compute, change), disk }),
  })

/** Stores the size of the disk and its rate limits. */
export const setDisk = (context: CommandContext, id: VmId, change: ChangeOf<Disk>): CommandResult =>
  reshape(context, id, {
    reason: 'disk',
    sizePointer: '/size_mib',
    shape: ({ compute, disk }) => ({ compute, disk: changed<Disk>(disk, change) }),
  })

/** Stores compute and the size of the disk, both or neither. The disk's rate limits stay. */
export const resize = (
  context: CommandContext,
  id: VmId,
  change: { readonly compute: ComputeChange; readonly diskMib: number },
): CommandResult =>
  reshape(context, id, {
    reason: 'resize',
    sizePointer: '/disk/size_mib',
    shape: ({ compute, disk }) => ({
      compute: changed<Compute>(compute, change.compute),
      disk: { ...disk, sizeMib: change.diskMib },
    }),
  })

/** Stores what follows from the end of the guest, and from a stop. */
export const setExit = (context: CommandContext, id: VmId, change: ExitChange): CommandResult =>
  storeDesired(context, id, {
    reason: 'exit policy',
    decide: ({ desired: { exit: before, ...rest } }) =>
      ok({ ...rest, ...given({ exit: changedExit(before, change) }) }),
  })

/** Stores user data and keys. The guest has them from its next boot on, as another instance. */
export const setSeed = (context: CommandContext, id: VmId, seed: InputsChange): CommandResult =>
  storeDesired(context, id, {
    reason: 'seed',
    inputs: seed,
    decide: (before) => {
      if (isSeed(context.store.vms.inputs(id), seed)) return ok(before.desired)
      if (!isStopped(before)) return err(notStopped(before, 'User data and keys'))
      return ok({ ...before.desired, instance: nextInstance(before.desired) })
    },
  })

/** Returns whether the change is stored already. */
const isSeed = (
  before: VmInputs,
  { userData, sshAuthorizedKeys = before.sshAuthorizedKeys }: InputsChange,
): boolean =>
  (userData === undefined || (userData ?? undefined) === before.userData) &&
  isDeepStrictEqual(sshAuthorizedKeys, before.sshAuthorizedKeys)

type Shape = Pick<Desired, 'compute' | 'disk'>

type ReshapeOptions = {
  readonly reason: string
  /** Where the request has the size of the disk; absent if it has none. */
  readonly sizePointer?: string
  readonly shape: (desired: Desired) => Shape
}

function reshape(context: CommandContext, id: VmId, change: ReshapeOptions): CommandResult {
  return storeDesired(context, id, {
    reason: change.reason,
    decide: (before) => {
      const shape = change.shape(before.desired)
      const refusal = refuseShape(before, shape, change.sizePointer)
      return refusal === undefined ? ok({ ...before.desired, ...shape }) : err(refusal)
    },
  })
}

function refuseShape(record: VmRecord, { compute, disk }: Shape, sizePointer = ''): Refusal | undefined {
  const { desired } = record
  if (disk.sizeMib < desired.disk.sizeMib) {
    return {
      code: 'disk_shrink',
      detail: `the disk of ${record.id} has ${desired.disk.sizeMib} MiB and never shrinks: ask for that or more`,
      errors: [
        { pointer: sizePointer, code: 'out_of_range', detail: `must be at least ${desired.disk.sizeMib}` },
      ],
    }
  }
  const guestChanges =
    compute.cpuMillicores !== desired.compute.cpuMillicores || compute.memoryMib !== desired.compute.memoryMib
  if (guestChanges && !isStopped(record)) return notStopped(record, 'CPU and memory')
  // A value that the VM already has is not judged again.
  if (compute.sleepAfterIdleSeconds !== desired.compute.sleepAfterIdleSeconds)
    return refuseSleep({ ...desired, compute }, '/sleep_after_idle_seconds')
  return undefined
}

/** Stores the check that shows whether the guest is ready; `undefined` removes it. */
export const setReadiness = (
  context: CommandContext,
  id: VmId,
  readiness: ReadinessCheck | undefined,
): CommandResult =>
  storeDesired(context, id, {
    reason: 'readiness',
    decide: ({ desired: { readiness: _before, ...rest } }) => {
      const desired = { ...rest, ...given({ readiness }) }
      const refusal = refuseReadiness(desired, '/check')
      return refusal === undefined ? ok(desired) : err(refusal)
    },
  })

/**
 * Changes the given members of the network. Bandwidth, firewall and the prefix belong to the host, and change under a
 * running guest. The addresses and the name servers are also known inside the guest, so they change only while it is
 * stopped.
 */
export const setNetwork = (context: CommandContext, id: VmId, network: SetNetwork): CommandResult =>
  storeDesired(context, id, {
    reason: 'network',
    decide: (before) => {
      const { desired, host } = before
      const after = changedNetwork(desired.network, network, {
        macAddress: guestMac(host.userId),
        nameServers: context.nameServers,
      })
      if (after === undefined) return ok(desired)
      if (!sameForGuest(desired.network, after) && !isStopped(before)) {
        return err(notStopped(before, 'Addresses and name servers'))
      }
      const refusal =
        refuseLastAddress(desired, after) ??
        refuseLonePrefix(after, '/ipv6_prefix') ??
        refuseAddresses(context, id, changedAddresses(desired.network, after))
      return refusal === undefined ? ok({ ...desired, network: after }) : err(refusal)
    },
  })

/**
 * Returns the network after a change, or undefined if there is none.
 * The host chooses what was removed and must be there.
 */
function changedNetwork(
  before: Network | undefined,
  change: SetNetwork,
  hostsChoice: { readonly macAddress: MacAddress; readonly nameServers: readonly string[] },
): Network | undefined {
  const entries = Object.entries({ ...before, ...change }).filter(([, value]) => value !== null)
  if (before === undefined && entries.length === 0) return undefined
  const nameServers = before === undefined || change.nameServers === null ? hostsChoice.nameServers : []
  const after: Network = { macAddress: hostsChoice.macAddress, ...Object.fromEntries(entries) }
  return withNameServers(after, nameServers)
}

/**
 * Returns the addresses that must be judged. An address that the VM already has is not judged again, because the ranges
 * may have changed since.
 */
function changedAddresses(before: Network | undefined, after: Network): Addresses {
  const changedTo = <K extends keyof Addresses>(name: K): Network[K] | undefined =>
    after[name] === before?.[name] ? undefined : after[name]
  return given({
    ipv4Address: changedTo('ipv4Address'),
    ipv6Address: changedTo('ipv6Address'),
    ipv6Prefix: changedTo('ipv6Prefix'),
  })
}

const sameForGuest = (a: Network | undefined, b: Network): boolean =>
  a !== undefined &&
  a.macAddress === b.macAddress &&
  a.ipv4Address === b.ipv4Address &&
  a.ipv6Address === b.ipv6Address &&
  isDeepStrictEqual(a.nameServers, b.nameServers)
