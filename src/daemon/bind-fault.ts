import { isIPv6 } from 'node:net'
import { bareAddress } from '../config/config.ts'
import { errnoOf } from '../host/ffi/errno-error.ts'

/** A listener of the configuration, by the name of its table. */
export type ListenerTable = {
  readonly table: 'controller' | 'coordination' | 'metrics'
  readonly address: string
  readonly port: number
}

/** Runs what binds a listener. Throws an error that names what the operator can fix, or the one of `bind`. */
export async function bindInWords<T>(place: ListenerTable, bind: () => Promise<T>): Promise<T> {
  try {
    return await bind()
  } catch (cause) {
    const words = bindFault(errnoOf(cause), place)
    throw words === undefined ? cause : new Error(words, { cause })
  }
}

function bindFault(errno: string | undefined, { table, address, port }: ListenerTable): string | undefined {
  const family = isIPv6(bareAddress(address)) ? 'IPv6' : 'IPv4'
  switch (errno) {
    case 'EADDRINUSE':
      return `another program has port ${port} of ${address}: end it if it is another vmhostd, or set ${table}.port`
    case 'EADDRNOTAVAIL':
      return `${address} is not an address of this host: give it to the host, or set ${table}.listen_address to one that it has`
    case 'EAFNOSUPPORT':
      return `this host has no ${family}, but ${address} is of it: boot it with ${family}, or set ${table}.listen_address to an address that it has`
    case undefined:
    default:
      return undefined
  }
}
