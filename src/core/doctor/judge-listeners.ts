import type { Finding } from './finding.ts'
import type { HostFacts } from './host-facts.ts'

/** Judges whether this host has the address of each listener. */
export const judgeListeners = ({ listeners }: HostFacts): readonly Finding[] =>
  listeners.map(({ listener, table, address, boundAt }): Finding => {
    const check = `listener ${listener}`
    if (!boundAt.known)
      return {
        check,
        level: 'must',
        found: `${address} cannot be bound: ${boundAt.because}`,
        remedy: `give this host that address, or set ${table}.listen_address to one that it has (0.0.0.0: all of IPv4)`,
      }
    const found = boundAt.value === '0.0.0.0' && address === '::' ? `${address}, without IPv6` : address
    return { check, level: 'ok', found: `can be bound at ${found}` }
  })
