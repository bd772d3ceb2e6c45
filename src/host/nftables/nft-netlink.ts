import { constants } from 'node:os'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/netlink-socket.ts'
import * as codec from './nft-codec.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { isNewsOf } from './nft-codec.ts'
import type { Element, TableObject } from './nft-codec.ts'

const { ENOENT } = constants.errno

/** The objects in a table, except the rules of its chains and the elements of its sets. */
type TableObjects = {
  readonly table: TableObject
  readonly chains: readonly TableObject[]
  readonly sets: readonly TableObject[]
  /** The number of objects of other kinds: named counters, flow tables and so on. */
  readonly others: number
}

/**
 * Reads one table of family inet, and adds elements to it, without running a program, in microseconds.
 * Every method throws ErrnoError.
 */
export class NftNetlink {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER)
  readonly #table: string

  constructor(table: string) {
    this.#table = table
  }

  /** Returns a number that rises by one with every transaction of any program on any table (nft_net.base_seq). */
  generation(): number {
    return codec.decodeGeneration(this.#socket.get(codec.getGeneration()).body)
  }

  /** Returns the objects in the table; undefined if there is no table. */
  objects(): TableObjects | undefined {
    const found = this.#socket.getIfThere(codec.getObjects('table', this.#table), [ENOENT])
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

  /** Returns the handles of the rules of a chain, in order. */
  rules(chain: string): readonly bigint[] {
    return this.#bodies(codec.getObjects('rule', this.#table, chain)).map(codec.decodeRuleHandle)
  }

  /** Returns the elements of a set; none if there is no such set. */
  elements(set: string): readonly Element[] {
    return this.#bodies(codec.getElements(this.#table, set), [ENOENT]).flatMap(codec.decodeElements)
  }

  /** Returns the element with this key; undefined if it is not in the set. */
  element(set: string, key: Uint8Array): Element | undefined {
    const found = this.#socket.getIfThere(codec.getElements(this.#table, set, key), [ENOENT])
    return found === undefined ? undefined : codec.decodeElements(found.body)[0]
  }

  /**
   * Adds elements to sets in one transaction. Throws ErrnoError; ERESTART if nftables has another generation by now.
   */
  addElements(keysBySet: ReadonlyMap<string, readonly Uint8Array[]>, generation: number): void {
    const added = [...keysBySet].map(([set, keys]) => codec.newElements(this.#table, set, keys))
    this.#socket.changeTogether(codec.beginTransaction(generation), added, codec.endTransaction())
  }

  close(): void {
    this.#socket.close()
  }

  #bodies(request: ReturnType<typeof codec.getGeneration>, absent?: readonly number[]): readonly Buffer[] {
    return this.#socket.dump(request, absent).map(({ body }) => body)
  }
}

/** linux/netfilter/nfnetlink.h: all changes in nftables, by any program. */
const NFNLGRP_NFTABLES = 7

/**
 * Calls back when a table of family inet was changed, or may have been. Changes that arrive together cause one call.
 */
export class TableWatch {
  readonly #table: string
  readonly #onNews: () => void
  #events: NetlinkEvents | undefined

  constructor(table: string, onNews: () => void) {
    this.#table = table
    this.#onNews = onNews
  }

  /** Starts watching. It neither blocks nor keeps the process alive, and can be repeated. Throws ErrnoError. */
  start(): void {
    this.#events ??= new NetlinkEvents({
      protocol: NETLINK_NETFILTER,
      groups: [NFNLGRP_NFTABLES],
      onEvents: (messages) => {
        if (messages.some((message) => isNewsOf(this.#table, message))) this.#onNews()
      },
      onLost: this.#onNews,
    })
  }

  close(): void {
    this.#events?.close()
    this.#events = undefined
  }
}
