import { once } from 'node:events'
import type { Server } from 'node:net'

/** All addresses of both families, and of IPv4 alone. */
const ALL = '::'
const ALL_OF_IPV4 = '0.0.0.0'

/**
 * Lets a server listen, and returns at which address. On a kernel without IPv6, `::` means all addresses of IPv4; no
 * other address is replaced. Throws the error of listen(2).
 */
export async function listenAt(server: Server, address: string, port: number): Promise<string> {
  try {
    await listen(server, address, port)
    return address
  } catch (error) {
    if (address !== ALL || (error as NodeJS.ErrnoException).code !== 'EAFNOSUPPORT') throw error
    await listen(server, ALL_OF_IPV4, port)
    return ALL_OF_IPV4
  }
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port })
  await once(server, 'listening')
}
