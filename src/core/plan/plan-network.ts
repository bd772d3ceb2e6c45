import { unreachable } from '../../lib/assert.ts'
import { sameGuestRule } from '../network/guest-rule.ts'
import { guestRuleOf, staleRoutes, tapDrift, tapLayout } from '../network/tap.ts'
import { isLiveMonitor } from '../world/world.ts'
import { when } from './facet.ts'
import type { TapSpec } from '../network/tap.ts'
import type { FirewallState } from '../world/network-state.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'

/** Puts the guest's rule in force before its device can carry a packet; the rule also outlives the device. */
export function ensureNetwork(world: World, { tap: spec }: Facts): Facet {
  if (spec === undefined) return []
  return when('network', world.firewall, (firewall) =>
    when('network', world.tap, (tap) => {
      const because = firewallDrift(firewall, spec)
      const guard = because === undefined ? [] : [{ kind: 'network.ensure-firewall', because } as const]
      switch (tap.kind) {
        case 'foreign':
          return {
            outcome: 'blocked',
            step: 'network.ensure-tap',
            code: 'tap_name_taken',
            retry: 'backoff',
            because: `${spec.device} is not a tap of this VM: ${tap.because}; rename or remove that device`,
          }
        case 'absent':
          return [...guard, { kind: 'network.ensure-tap', because: `there is no device ${spec.device}` }]
        case 'present': {
          const missing = tapDrift(spec, tap.facts)
          return missing.length === 0
            ? guard
            : [...guard, { kind: 'network.ensure-tap', because: `${spec.device}: ${missing.join(', ')}` }]
        }
        default:
          return unreachable(tap)
      }
    }),
  )
}

function firewallDrift(firewall: FirewallState, spec: TapSpec): string | undefined {
  switch (firewall.kind) {
    case 'absent':
      return 'there is no table inet vmhostd'
    case 'altered':
      return 'the table inet vmhostd is not as it was written'
    case 'unverified':
      return 'this daemon has not written the table inet vmhostd yet'
    case 'intact':
      if (firewall.rule === undefined) return `no rule for ${spec.device}`
      return sameGuestRule(firewall.rule, guestRuleOf(spec)) ? undefined : `another rule for ${spec.device}`
    default:
      return unreachable(firewall)
  }
}

/**
 * Releases the former addresses of a stopped VM, so that other VMs can have them. A stopped VM needs nothing else of
 * the network. It is not settled without a look at its tap, because that alone shows such addresses.
 */
export function leaveFormerAddresses(world: World, facts: Facts): Facet {
  const { tap: spec } = facts
  if (spec === undefined) return []
  return when('network', world.tap, (tap) => {
    if (tap.kind !== 'present') return []
    const left = staleRoutes(tapLayout(spec), tap.facts)
    return left.length === 0 ? [] : ensureNetwork(world, facts)
  })
}

/** Gives a device back to a monitor that has lost it. The guest keeps running meanwhile. */
export function ensureAttached(world: World, { tap: spec }: Facts): Facet {
  const { unit, monitor, tap } = world
  if (spec === undefined || !tap.known || tap.value.kind !== 'present' || tap.value.facts.attached) return []
  if (!unit.known || unit.value.kind !== 'active' || !monitor.known) return []
  if (!isLiveMonitor(monitor.value)) return []
  const because = `the guest runs, and no monitor holds ${spec.device}`
  return [{ kind: 'network.ensure-attached', mainPid: unit.value.mainPid, because }]
}

/**
 * Returns whether the table has the rule, may have it because the table is unclear, or will get it when it is written
 * again.
 */
const mayHaveRule = (firewall: FirewallState): boolean =>
  firewall.kind === 'altered' || firewall.kind === 'unverified' || firewall.rule !== undefined

/** Removes the device before the rule that guards it; leaves a foreign device alone. */
export function removeNetwork(world: World, because: string): Facet {
  return when('network', world.tap, (tap) =>
    when('network', world.firewall, (firewall) => [
      ...(tap.kind === 'present' ? [{ kind: 'network.remove-tap', because } as const] : []),
      ...(mayHaveRule(firewall) ? [{ kind: 'network.remove-firewall', because } as const] : []),
    ]),
  )
}
