import { setImmediate } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import type { TableObject } from './nft-codec.ts'
import type { NftNetlink } from './nft-netlink.ts'

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
