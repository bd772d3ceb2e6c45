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

export type NodeOutboundOptions = Omit<OutboundOptions, 'extraCa' | 'identity' | 'connectMs'> & {
  readonly files: NodeFiles
}

/** The node certificate of this host, or the authority, cannot be read or used. */
export class NodeFilesUnusable extends Error {
  override readonly name = 'NodeFilesUnusable'
}

/** Sends requests to other hosts with the node certificate of this one. Reads its files before each request. */
export class NodeOutbound {
  readonly #options: NodeOutboundOptions
  #now: { readonly identity: NodeIdentity; readonly outbound: Outbound } | undefined

  constructor(options: NodeOutboundOptions) {
    this.#options = options
  }

  /** Throws OutboundFailure, NodeFilesUnusable and the signal's reason. */
  ask(request: OutboundRequest): Promise<OutboundAnswer> {
    return this.#outbound().ask(request)
  }

  /** Ends all connections. */
  close(): void {
    this.#now?.outbound.close()
  }

  #outbound(): Outbound {
    const { files, ...options } = this.#options
    try {
      const identity = readFiles(files)
      if (this.#now !== undefined && isSame(this.#now.identity, identity)) return this.#now.outbound
      const outbound = new Outbound({ ...options, identity, connectMs: limits.sourceConnectMs })
      // Requests that are under way keep their connections, and idle connections end by themselves.
      this.#now = { identity, outbound }
      return outbound
    } catch (cause) {
      // Files are replaced one after the other. Until they fit together, the old ones are used.
      if (this.#now !== undefined) return this.#now.outbound
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
