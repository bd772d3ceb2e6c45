import { hasErrno } from '../ffi/errno-error.ts'
import { decodeAttributes, encodeAttribute, encodeString } from '../netlink/message.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/netlink-socket.ts'

/** linux/netfilter/nfnetlink.h and nf_tables.h. */
const NFNL_SUBSYS_NFTABLES = 10
const NFT_MSG_GETTABLE = 1
const NFT_MSG_GETGEN = 16
const NFTA_TABLE_NAME = 1
const NFTA_GEN_ID = 1
const NFPROTO_INET = 1
const NFPROTO_UNSPEC = 0

/** struct nfgenmsg: family, version 0, resource 0. */
const header = (family: number): Buffer => Buffer.from([family, 0, 0, 0])
const HEADER_BYTES = 4

const request = (message: number): number => (NFNL_SUBSYS_NFTABLES << 8) | message

/** What can be learned of nftables without a program, in microseconds. Every method throws ErrnoError. */
export class NftNetlink {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER)

  /** A number that rises by one with every transaction that anybody makes on any table (nft_net.base_seq). */
  generation(): number {
    const { body } = this.#socket.get({
      what: 'get nftables generation',
      type: request(NFT_MSG_GETGEN),
      body: header(NFPROTO_UNSPEC),
    })
    // nftables speaks big-endian inside attributes.
    return decodeAttributes(body.subarray(HEADER_BYTES)).get(NFTA_GEN_ID)?.readUInt32BE(0) ?? 0
  }

  hasTable(name: string): boolean {
    try {
      this.#socket.get({
        what: `get nftables table ${name}`,
        type: request(NFT_MSG_GETTABLE),
        body: Buffer.concat([header(NFPROTO_INET), encodeAttribute(NFTA_TABLE_NAME, encodeString(name))]),
      })
      return true
    } catch (error) {
      if (hasErrno(error, 'ENOENT')) return false
      throw error
    }
  }

  close(): void {
    this.#socket.close()
  }
}
