import { ref } from '../../wire/named.ts'
import { syncToWire } from '../../wire/sync-to-wire.ts'
import { problems, requestIdHeader, noQuery } from '../../listener/answers.ts'
import { contextOf } from './vm-parts.ts'
import type { SyncWire } from '../../wire/sync.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the state of the whole host in one answer. */
export function syncRoutes(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'getSync',
    tags: ['Host'],
    summary: 'Get the host',
    description:
      'The actual capacity, and every VM, image and snapshot. The host is inspected for each answer; requests at the ' +
      'same time share an inspection. If memory, storage or systemd cannot be inspected, the answer is a 503 with the code of the ' +
      'fault, without any figures.',
    querystring: noQuery,
    response: {
      200: { ...ref('Sync'), description: 'The host.', headers: requestIdHeader },
      ...problems('capacity_unknown', 'storage_inspection_failed', 'systemd_unavailable'),
    },
  }
  app.get('/v1/sync', { schema }, async (): Promise<SyncWire> => {
    const { store } = contextOf(dependencies)
    const view = await dependencies.hostView()
    // Answer only what is on the disk.
    await store.flushed()
    const { certificates } = dependencies
    return syncToWire(view, {
      certificates: certificates.list(),
      clients: certificates.clients.list(),
      revocations: certificates.revocations('controller'),
      maintenance: store.maintenance.get(),
      faults: dependencies.hostFaults(),
    })
  })
}
