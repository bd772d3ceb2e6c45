import { hasErrno } from '../ffi/errno-error.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/netlink-socket.ts'
import * as codec from './nft-codec.ts'
import type { Element, TableObject } from './nft-codec.ts'

/** What stands in a table, but for the rules of its chains and the elements of its sets. */
export type TableObjects = {
  readonly table: TableObject
  readonly chains: readonly TableObject[]
  readonly sets: readonly TableObject[]
  /** How many things of other kinds there are: named counters, flow tables and so on. */
  readonly others: number
}

/** What can be learned of one table of family inet without a program, in microseconds. Every method throws ErrnoError. */
export class NftNetlink {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER)
  readonly #table: string

  constructor(table: string) {
    this.#table = table
  }

  /** A number that rises by one with every transaction that anybody makes on any table (nft_net.base_seq). */
  generation(): number {
    return codec.decodeGeneration(this.#socket.get(codec.getGeneration()).body)
  }

  /** What stands in the table; undefined where there is none. */
  objects(): TableObjects | undefined {
    const found = this.#orAbsent(() => this.#socket.get(codec.getObjects('table', this.#table)))
    if (found === undefined) return undefined
    const { use, ...table } = codec.decodeTable(found.body)
    const chains = this.#bodies(codec.getObjects('chain', this.#table))
      .filter((body) => codec.decodeTableName(body) === this.#table)
      .map(codec.decodeChain)
    const sets = this.#bodies(codec.getObjects('set', this.#table)).map(codec.decodeSet)
    return { table, chains, sets, others: use - chains.length - sets.length }
  }

  chain(name: string): TableObject {
    return codec.decodeChain(this.#socket.get(codec.getObjects('chain', this.#table, name)).body)
  }

  /** The handles of the rules of a chain, in order. */
  rules(chain: string): readonly bigint[] {
    return this.#bodies(codec.getObjects('rule', this.#table, chain)).map(codec.decodeRuleHandle)
  }

  /** What is in a set; nothing where there is no such set. */
  elements(set: string): readonly Element[] {
    const read = (): readonly Element[] =>
      this.#bodies(codec.getElements(this.#table, set)).flatMap(codec.decodeElements)
    return this.#orAbsent(read) ?? []
  }

  /** The element with this key; undefined where it is not in the set. */
  element(set: string, key: Uint8Array): Element | undefined {
    const found = this.#orAbsent(() => this.#socket.get(codec.getElements(this.#table, set, key)))
    return found === undefined ? undefined : codec.decodeElements(found.body)[0]
  }

  close(): void {
    this.#socket.close()
  }

  #bodies(request: ReturnType<typeof codec.getGeneration>): readonly Buffer[] {
    return this.#socket.dump(request).map(({ body }) => body)
  }

  #orAbsent<T>(read: () => T): T | undefined {
    try {
      return read()
    } catch (error) {
      if (hasErrno(error, 'ENOENT')) return undefined
      throw error
    }
  }
}
