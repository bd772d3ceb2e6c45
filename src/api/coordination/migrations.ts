import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { noQuery, problems, requestIdHeader } from '../listener/answers.ts'
import { onceOpen, Refused } from '../listener/refused.ts'
import { manifestToWire } from '../wire/manifest.ts'
import { migrationIdSchema } from '../wire/migration.ts'
import { ref } from '../wire/named.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'
import type { ManifestWire } from '../wire/manifest.ts'
import type { App } from '../listener/app.ts'
import type { CoordinationDependencies } from './dependencies.ts'

/** Serves the offers of this host to the nodes that they name. */
export function migrationRoutes(app: App, dependencies: CoordinationDependencies): void {
  const schema = {
    operationId: 'getMigration',
    tags: ['Migrations'],
    summary: 'Get an offered VM',
    description:
      'What the offer is, how far the VM has left this host, and what a destination must have to take it. Only the node that the ' +
      'offer names sees it; for any other node there is no such migration.',
    params: Type.Object({ id: migrationIdSchema }, closed),
    querystring: noQuery,
    response: {
      200: { ...ref('Manifest'), description: 'The offered VM.', headers: requestIdHeader },
      ...problems('not_found', 'starting_up', 'monitor_missing'),
    },
  }
  app.get('/v1/migrations/:id', { schema }, async (request): Promise<ManifestWire> => {
    const departures = onceOpen(dependencies.departures())
    const id = request.params.id as MigrationId
    const manifest = await departures.manifest(id, request.peerName as NodeName)
    // The same words for an offer to another node: a node learns nothing about the offers of others.
    if (manifest === undefined)
      throw new Refused({
        code: 'not_found',
        detail: `there is no migration ${id} to this node on this host`,
      })
    await departures.flushed()
    return manifestToWire(manifest)
  })
}
