import { offerVm, withdrawOffer } from '../../../commands/migration/offer-vm.ts'
import { offerFromWire } from '../../wire/migration.ts'
import { ref } from '../../wire/named.ts'
import { BODY_CODES, LEAVING_CODES, mutate, mutationSchema } from './mutation.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the offers of VMs to other hosts. */
export function vmMigrationRoutes(app: App, dependencies: ApiDependencies): void {
  const offer = {
    ...mutationSchema(
      'not_found',
      'vm_deleting',
      ...LEAVING_CODES,
      'migration_ended',
      'snapshot_under_way',
      'offers_full',
      'conflict',
      ...BODY_CODES,
    ),
    operationId: 'offerVm',
    summary: 'Offer a VM to another host',
    description:
      'The host with this node certificate may then take the VM. The generation is reached when the migration has ended: ' +
      '`observed.migration.stage` is then `released` or `withdrawn`. Until then only a stop, a deletion and a withdrawal are ' +
      'accepted. The same offer again changes nothing; another `expires_at` moves the deadline.',
    body: ref('OfferVm'),
  }
  app.put('/v1/vms/:id/migration', { schema: offer }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) =>
      offerVm(context, id, offerFromWire(request.body)),
    ),
  )
  const withdrawal = {
    ...mutationSchema('not_found', 'vm_deleting', 'vm_migrated'),
    operationId: 'withdrawOffer',
    summary: 'Withdraw an offer',
    description:
      'The guest stays, and wakes if it was saved for the migration. Refused once the VM is released. Without an offer it changes nothing.',
  }
  app.delete('/v1/vms/:id/migration', { schema: withdrawal }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) => withdrawOffer(context, id)),
  )
}
