import { setImmediate } from 'node:timers/promises'
import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { compileRuleset } from '../../core/network/ruleset.ts'
import type { TableObject } from './nft-codec.ts'
import type { NftNetlink } from './nft-netlink.ts'
import type { GuestRule } from '../../core/world/network-state.ts'
import type { FirewallPolicy } from '../../core/network/ruleset.ts'

/**
 * The handles and settings of a table's objects, by name. The kernel never reuses an object's handle while the table
 * exists, nor a table's handle while the host runs. Rules never change. Chains and sets can change only in the settings
 * that are part of the identity. So equal identities mean that no program made, replaced, moved or deleted an object,
 * whatever the object says.
 */
export type Identity = ReadonlyMap<string, string>

/** Reads the table; undefined if there is none. Other tasks run in between. */
export async function readIdentity(netlink: NftNetlink): Promise<Identity | undefined> {
  const objects = netlink.objects()
  if (objects === undefined) return undefined
  const { table, chains, sets, others } = objects
  const identity = new Map([
    ['table', objectMark(table)],
    ['others', `${others}`],
    ...sets.map((set) => [`set ${set.name}`, objectMark(set)] as const),
  ])
  for (const [index, chain] of chains.entries()) {
    if (index % limits.nftChainsPerTurn === limits.nftChainsPerTurn - 1) await setImmediate()
    identity.set(...chainIdentity(chain, netlink.rules(chain.name)))
  }
  return identity
}

/** Returns the entry of a chain in an identity. */
export const chainIdentity = (chain: TableObject, rules: readonly bigint[]): readonly [string, string] => [
  chainKey(chain.name),
  [objectMark(chain), ...rules].join(' '),
]

export const chainKey = (name: string): string => `chain ${name}`

export const sameIdentity = (a: Identity, b: Identity): boolean =>
  a.size === b.size && [...a].every(([key, mark]) => b.get(key) === mark)

const objectMark = ({ handle, settings }: TableObject): string => `${handle}/${settings}`

/** The table as a daemon left it: the rules of its guests, and digests of its text and of its state in the kernel. */
export type TableRecord = {
  readonly guests: readonly GuestRule[]
  readonly text: string
  readonly table: string
}

/** The state of a table as the kernel shows it. */
export type FoundTable = { readonly identity: Identity; readonly elements: ReadonlySet<string> }

export function recordTable(
  policy: FirewallPolicy,
  guests: readonly GuestRule[],
  found: FoundTable,
): TableRecord {
  return { guests, text: textDigest(policy, guests), table: tableDigest(found) }
}

/**
 * Compares a table with the record that the previous daemon left of it. `altered`: another program has changed it
 * since. `other`: this daemon would write another table for these guests, as after an upgrade. `same`: neither.
 */
export function judgeTable(
  { guests, text, table }: TableRecord,
  policy: FirewallPolicy,
  found: FoundTable,
): 'altered' | 'other' | 'same' {
  if (tableDigest(found) !== table) return 'altered'
  return textDigest(policy, guests) === text ? 'same' : 'other'
}

const textDigest = (policy: FirewallPolicy, guests: readonly GuestRule[]): string =>
  digest([compileRuleset(policy, guests)])

const tableDigest = ({ identity, elements }: FoundTable): string =>
  digest([...[...identity].map(([key, mark]) => `${key}=${mark}`), ...elements].toSorted())

const digest = (lines: readonly string[]): string =>
  createHash('sha256').update(lines.join('\n')).digest('hex')

/**
 * Holds the record that a daemon leaves for the next one. It is in the run directory, which is lost at a reboot, as the
 * table is.
 */
export class TableRecordFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Returns the record once, because later changes of the table are not in it. Undefined if there is none that can be
   * read.
   */
  take(): TableRecord | undefined {
    try {
      const text = readFileSync(this.#path, 'utf8')
      rmSync(this.#path)
      return JSON.parse(text) as TableRecord
    } catch {
      return undefined
    }
  }

  /** Writes the record. Without one the next daemon writes the table again. */
  leave(record: TableRecord): void {
    try {
      writeFileSync(this.#path, JSON.stringify(record), { mode: 0o600 })
    } catch {
      // An incomplete record is not valid JSON.
    }
  }
}
