import { readFileSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { Outbound } from '../outbound/outbound-request.ts'
import type {
  NodeIdentity,
  OutboundAnswer,
  OutboundOptions,
  OutboundRequest,
} from '../outbound/outbound-request.ts'

/** Paths of PEM files. */
export type NodeFiles = {
  readonly caFile: string
  readonly certificateFile: string
  readonly keyFile: string
}

export type NodeOutboundOptions = Omit<
  OutboundOptions,
  'extraCa' | 'identity' | 'connectMs' | 'isRevoked'
> & {
  readonly files: NodeFiles
  /**
   * Reads the revocation lists of these authorities (PEM), and returns whether the certificate of a peer is revoked.
   * Throws an error that says why they cannot be used. Absent: no certificate is revoked.
   */
  readonly readRevoked?: (ca: Buffer) => Promise<IsRevoked>
}

type IsRevoked = NonNullable<OutboundOptions['isRevoked']>

/** The node certificate of this host, the authority or its revocation list, cannot be read or used. */
export class NodeFilesUnusable extends Error {
  override readonly name = 'NodeFilesUnusable'
}

/** Sends requests to other hosts with the node certificate of this one. Reads all files before each request. */
export class NodeOutbound {
  readonly #options: NodeOutboundOptions
  #now: { readonly identity: NodeIdentity; readonly outbound: Outbound } | undefined
  #isRevoked: IsRevoked | undefined

  constructor(options: NodeOutboundOptions) {
    this.#options = options
  }

  /** Throws OutboundFailure, NodeFilesUnusable and the signal's reason. */
  async ask(request: OutboundRequest): Promise<OutboundAnswer> {
    const { identity, outbound } = this.#ready()
    const { readRevoked } = this.#options
    try {
      if (readRevoked !== undefined) this.#isRevoked = await readRevoked(identity.ca)
    } catch (cause) {
      throw new NodeFilesUnusable('it is not known which nodes are revoked', { cause })
    }
    return outbound.ask(request)
  }

  /** Ends all connections. */
  close(): void {
    this.#now?.outbound.close()
  }

  #ready(): { readonly identity: NodeIdentity; readonly outbound: Outbound } {
    const { files, readRevoked, ...options } = this.#options
    try {
      const identity = readFiles(files)
      if (this.#now !== undefined && isSame(this.#now.identity, identity)) return this.#now
      // Requests that are under way keep their connections, and idle connections end by themselves.
      this.#now = {
        identity,
        outbound: new Outbound({
          ...options,
          ...(readRevoked && { isRevoked: (socket) => this.#isRevoked?.(socket) ?? false }),
          identity,
          connectMs: limits.sourceConnectMs,
        }),
      }
      return this.#now
    } catch (cause) {
      // Files are replaced one after the other. Until they fit together, the old ones are used.
      if (this.#now !== undefined) return this.#now
      const { caFile, certificateFile, keyFile } = files
      throw new NodeFilesUnusable(
        `${certificateFile}, ${keyFile} and ${caFile} cannot be used together; "vmhostd setup" makes certificates to start from`,
        { cause },
      )
    }
  }
}

const readFiles = ({ caFile, certificateFile, keyFile }: NodeFiles): NodeIdentity => ({
  ca: readFileSync(caFile),
  cert: readFileSync(certificateFile),
  key: readFileSync(keyFile),
})

const isSame = (a: NodeIdentity, b: NodeIdentity): boolean =>
  a.ca.equals(b.ca) && a.cert.equals(b.cert) && a.key.equals(b.key)
