import { GUEST_SETS } from '../../core/network/ruleset.ts'
import type { GuestRule } from '../../core/network/guest-rule.ts'

/** A table as `nft -j list table` tells it (libnftables-json(5)), in the two parts that are judged apart. */
export type Listing = {
  /** Everything but the guests, without what changes by itself. Differs between versions of nft. */
  readonly skeleton: string
  /** What stands in the guest sets, each as {@link guestElements} writes it. */
  readonly guests: ReadonlySet<string>
}

type Json = { readonly [key: string]: unknown }

/**
 * Reads the output of `nft -j list table`; undefined where it is none. A table that we wrote is always readable, but
 * nft 1.0.6 succeeds with an empty output where somebody gave the table flags.
 */
export function parseListing(json: string): Listing | undefined {
  const nftables = parseEntries(json)
  if (nftables === undefined) return undefined
  const guests = new Set<string>()
  const skeleton = nftables.flatMap((entry) => {
    if ('metainfo' in entry) return []
    const set = entry['set'] as Json | undefined
    if (set === undefined) return [stable(entry)]
    const { elem = [], ...declaration } = set
    const name = String(set['name'])
    if (name in GUEST_SETS)
      for (const element of elem as readonly unknown[]) guests.add(`${name} ${text(element)}`)
    // Elements with a timeout are put there by packets.
    const kept =
      name in GUEST_SETS || 'timeout' in set ? [] : (elem as readonly unknown[]).map(text).toSorted(byText)
    return [stable({ set: declaration }), ...kept]
  })
  return { skeleton: skeleton.join('\n'), guests }
}

function parseEntries(json: string): readonly Json[] | undefined {
  try {
    const listing = JSON.parse(json) as { readonly nftables?: readonly Json[] }
    return listing.nftables
  } catch {
    return undefined
  }
}

/** What the guest sets hold when these rules are in force. */
export function guestElements(guests: Iterable<GuestRule>): ReadonlySet<string> {
  const elements = new Set<string>()
  for (const rule of guests) {
    for (const [name, { of }] of Object.entries(GUEST_SETS)) {
      const value = of(rule)
      if (value !== undefined) elements.add(`${name} ${text({ concat: [rule.device, value] })}`)
    }
  }
  return elements
}

/** Without handles, which every transaction gives anew, and without what has been counted. */
const stable = (entry: Json): string =>
  JSON.stringify(entry, (key, value: unknown) =>
    VOLATILE.has(key) && typeof value === 'number' ? undefined : value,
  )

const VOLATILE = new Set(['handle', 'packets', 'bytes'])

const text = (value: unknown): string => JSON.stringify(value)
const byText = (a: string, b: string): number => (a < b ? -1 : 1)
