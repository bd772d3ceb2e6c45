import { NETLINK_NETFILTER } from '../netlink/calls.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { isNewsOf } from './nft-codec.ts'

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
