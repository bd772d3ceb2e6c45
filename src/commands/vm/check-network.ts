import { networkContains, networkCovers } from '../../core/network/address.ts'
import { guestAddress } from '../../core/desired.ts'
import { canSleep } from '../../core/sleep/idle-timeout.ts'
import type { Network, Desired } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { CommandContext, Refusal } from '../context.ts'
import type { Store } from '../../store/store.ts'
import type { Rejection } from '../../core/errors.ts'

export type Addresses = Pick<Network, 'ipv4Address' | 'ipv6Address' | 'ipv6Prefix'>

/**
 * Returns why the guest of `id` may not have these addresses and this prefix, or undefined if it may. Each must be free
 * on this host.
 */
export function refuseAddresses(
  context: CommandContext,
  id: VmId,
  { ipv4Address, ipv6Address, ipv6Prefix }: Addresses,
): Refusal | undefined {
  for (const address of [ipv4Address, ipv6Address]) {
    const refusal = address === undefined ? undefined : refuseAddress(context, id, address)
    if (refusal !== undefined) return refusal
  }
  return ipv6Prefix === undefined ? undefined : refusePrefix(context, id, ipv6Prefix)
}

function refuseAddress(context: CommandContext, id: VmId, address: string): Refusal | undefined {
  const { store, capacity, guestRanges } = context
  if (guestRanges.length > 0 && !guestRanges.some((range) => networkContains(range, address))) {
    return notInRanges(address, guestRanges)
  }
  const holder = store.addresses.holder(address, id)
  if (holder !== undefined) {
    return {
      code: 'address_in_use',
      detail: `${address} belongs to the VM ${holder}${unlessGone(store, holder)} choose another address`,
    }
  }
  const own = capacity.hostAddresses()
  if (!own.known) return own
  if (!own.value.has(address)) return undefined
  return { code: 'address_in_use', detail: `${address} ${HOSTS}: choose another address` }
}

/**
 * Returns the words between the holder of an address and the advice to choose another one: a VM that is being deleted
 * frees it soon.
 */
const unlessGone = (store: Store, holder: VmId): string =>
  store.vms.readable(holder)?.deleting === true ? ', which is being deleted: wait until it is gone, or' : ':'

function refusePrefix(context: CommandContext, id: VmId, prefix: string): Refusal | undefined {
  const { store, capacity, guestRanges } = context
  if (guestRanges.length > 0 && !guestRanges.some((range) => networkCovers(range, prefix))) {
    return notInRanges(prefix, guestRanges)
  }
  const holder = store.addresses.prefixHolder(prefix, id)
  if (holder !== undefined) {
    const detail = `${prefix} overlaps an address or the prefix of the VM ${holder}${unlessGone(store, holder)} choose another prefix`
    return { code: 'address_in_use', detail }
  }
  const own = capacity.hostAddresses()
  if (!own.known) return own
  const address = own.value.values().find((one) => networkContains(prefix, one))
  if (address === undefined) return undefined
  const detail = `${prefix} has ${address} in it, which ${HOSTS}: choose another prefix`
  return { code: 'address_in_use', detail }
}

/** The phrase that follows an address which the host needs for itself. */
const HOSTS = 'belongs to the host itself, or is its router, resolver or broadcast address'

const notInRanges = (what: string, guestRanges: readonly string[]): Rejection => ({
  code: 'address_not_allowed',
  detail: `${what} is not in ${guestRanges.join(' or ')}, the ranges for guests on this host`,
})

/**
 * Returns why a prefix cannot be routed: the guest has no IPv6 address by way of which it goes. `pointer` is the place
 * of the prefix in the request.
 */
export function refuseLonePrefix(
  { ipv6Address, ipv6Prefix }: Addresses,
  pointer: string,
): Rejection | undefined {
  if (ipv6Prefix === undefined || ipv6Address !== undefined) return undefined
  const detail = `${ipv6Prefix} is routed by way of the IPv6 address of the guest, and it has none: leave the prefix out, or give the VM an address`
  return { code: 'invalid_request', detail, errors: [{ pointer, code: 'not_allowed', detail }] }
}

type Sleeps = Pick<Desired, 'compute'> & { readonly network?: Addresses }

/** Returns the network with the name servers that it asks for, or with those of the host. An empty list is left out. */
export function withNameServers<N extends Pick<Network, 'nameServers'>>(
  { nameServers, ...rest }: N,
  hostsChoice: readonly string[],
): Omit<N, 'nameServers'> & Pick<Network, 'nameServers'> {
  const chosen = nameServers ?? hostsChoice
  return { ...rest, ...(chosen.length === 0 ? {} : { nameServers: chosen }) }
}

/**
 * Returns why an idle timeout cannot work: packets are routed to a guest by its addresses, so without one none could
 * wake the VM. `pointer` is its place in the request.
 */
export function refuseSleep(desired: Sleeps, pointer: string): Rejection | undefined {
  const seconds = desired.compute.sleepAfterIdleSeconds
  if (seconds === 0 || canSleep(desired)) return undefined
  return {
    code: 'sleep_needs_network',
    detail: `sleep_after_idle_seconds is ${seconds}, and without an address no packet could wake the VM: ask for 0, or give the VM an address`,
    errors: [{ pointer, code: 'not_allowed', detail: 'must be 0 without an address' }],
  }
}

/**
 * Returns why the last address cannot be removed: the VM has an idle timeout, and no packet could wake it then, or a
 * check that uses the address.
 */
export function refuseLastAddress(before: Sleeps & Checks, network: Addresses): Rejection | undefined {
  const sleep = canSleep(before) ? refuseSleep({ ...before, network }, '') : undefined
  const hadAddress = guestAddress(before.network) !== undefined
  const check = hadAddress ? refuseReadiness({ ...before, network }, '') : undefined
  const refusal = sleep ?? (check && { ...check, detail: CHECK_NEEDS_ADDRESS })
  if (refusal === undefined) return undefined
  const use = sleep === undefined ? 'the VM has a readiness check' : 'sleep_after_idle_seconds is above 0'
  const detail = `must stay as long as ${use}`
  const removed = [
    ...(before.network?.ipv4Address === undefined ? [] : ['/ipv4_address']),
    ...(before.network?.ipv6Address === undefined ? [] : ['/ipv6_address']),
  ]
  return { ...refusal, errors: removed.map((pointer) => ({ pointer, code: 'not_allowed', detail })) }
}

const CHECK_NEEDS_ADDRESS =
  'the VM has a readiness check, which needs an address: remove the check first, or keep an address'

type Checks = Pick<Desired, 'readiness'> & { readonly network?: Addresses }

/** Returns why a check cannot be made: the guest has no address. `pointer` is its place in the request. */
export function refuseReadiness({ readiness, network }: Checks, pointer: string): Rejection | undefined {
  if (readiness === undefined || guestAddress(network) !== undefined) return undefined
  const detail =
    'a check needs an address, and the VM has none: leave the check out, or give the VM an address'
  return { code: 'invalid_request', detail, errors: [{ pointer, code: 'not_allowed', detail }] }
}
