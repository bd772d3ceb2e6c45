import { once } from 'node:events'
import { createServer } from 'node:net'
import { listenAt } from '../../api/listener/listen-at.ts'
import { bareAddress } from '../../config/config.ts'
import { fact } from './fact.ts'
import type { Config } from '../../config/config.ts'
import type { HostFacts } from '../../core/doctor/host-facts.ts'

/** Reads whether each listener of the configuration can be bound on this host. A daemon that runs may have its port. */
export function readListeners({
  controller,
  coordination,
  metrics,
}: Pick<Config, 'controller' | 'coordination' | 'metrics'>): Promise<HostFacts['listeners']> {
  const listeners = [
    { listener: 'controller', table: 'controller', address: controller.listenAddress },
    ...(coordination.enabled
      ? [{ listener: 'nodes', table: 'coordination', address: coordination.listenAddress }]
      : []),
    ...(metrics.enabled ? [{ listener: 'metrics', table: 'metrics', address: metrics.listenAddress }] : []),
  ]
  return Promise.all(
    listeners.map(async (one) => ({ ...one, boundAt: await fact(() => bindAt(bareAddress(one.address))) })),
  )
}

/** Binds an address for a moment, at a port that the kernel chooses. Returns the address that it is then. */
async function bindAt(address: string): Promise<string> {
  const server = createServer((socket) => socket.destroy())
  const found = await listenAt(server, address, 0)
  server.close()
  await once(server, 'close')
  return found
}
