/** Questions whether a guest is ready, over real connections, with the mark on their packets. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { test } from 'node:test'
import { TcpProbes } from '../../src/host/probes/tcp-probes.ts'
import { OWN_MARK } from '../../src/host/ebpf/ignored-traffic.ts'
import { atEnd } from '../contract/at-end.ts'
import { guestProbesContract } from '../contract/guest-probes.contract.ts'
import { skip } from './in-lab.ts'
import type { AddressInfo, Server } from 'node:net'

const probes = new TcpProbes({ mark: OWN_MARK })

async function listening(server: Server, address: string): Promise<{ address: string; port: number }> {
  server.listen(0, address)
  await once(server, 'listening')
  return { address, port: (server.address() as AddressInfo).port }
}

for (const address of ['127.0.0.1', '::1'])
  guestProbesContract(
    `guest probes to ${address}`,
    async () => {
      const servers: Server[] = []
      const open = (paths: Readonly<Record<string, number>>) => {
        const server = createServer(({ url = '/' }, response) => {
          response.writeHead(paths[url] ?? 404).end()
        })
        servers.push(server)
        return listening(server, address)
      }
      return {
        probes,
        serve: open,
        closed: async () => {
          const place = await open({})
          for (const server of servers) await new Promise((resolve) => server.close(resolve))
          return place
        },
        end: () => servers.forEach((server) => server.close()),
      }
    },
    { skip },
  )

test('a server that never answers, or sends without end, costs a bounded time', { skip }, async (t) => {
  const silent = createTcpServer(() => {})
  const endless = createTcpServer((socket) => {
    socket.on('error', () => {})
    const more = (): void => void socket.write('x'.repeat(4096), (error) => error ?? setImmediate(more))
    more()
  })
  for (const server of [silent, endless]) {
    atEnd(t, () => void server.close())
    const { address, port } = await listening(server, '127.0.0.1')
    const because = await probes.probe({ address, check: { protocol: 'http', port } })
    assert.match(because ?? '', /^GET \/ on port \d+: no status within 2000 ms$/)
  }
})
