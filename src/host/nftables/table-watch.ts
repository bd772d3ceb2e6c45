import { NETLINK_NETFILTER } from '../netlink/calls.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { isNewsOf } from './nft-codec.ts'

/** linux/netfilter/nfnetlink.h: all that is changed in nftables, by whomever. */
const NFNLGRP_NFTABLES = 7

/** Calls back when a table of family inet was changed, or may have been, once for what comes together. */
export class TableWatch {
  readonly #table: string
  readonly #onNews: () => void
  #events: NetlinkEvents | undefined

  constructor(table: string, onNews: () => void) {
    this.#table = table
    this.#onNews = onNews
  }

  /** Neither blocks nor keeps the process alive. Can be repeated. Throws ErrnoError. */
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
