import { offerVm, withdrawOffer } from '../../../commands/migration/offer-vm.ts'
import { refuseMonitor } from '../../../commands/capacity/admit.ts'
import { refuseNewVm } from '../../../commands/maintenance/refuse-cordoned.ts'
import { takenAlready, takeVm } from '../../../commands/migration/take-vm.ts'
import { noVmWords } from '../../../commands/vm/store-desired.ts'
import { err } from '../../../lib/result.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { offerFromWire, takeFromWire } from '../../wire/migration.ts'
import { ref } from '../../wire/named.ts'
import { ADMISSION_CODES, LEAVING_CODES, mutate, mutationSchema } from './mutation.ts'
import { contextOf } from './vm-parts.ts'
import type { MonitorKind } from '../../../core/monitor/monitor-kind.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmWire } from '../../wire/vm.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the offers of VMs to other hosts. */
export function vmMigrationRoutes(app: App, dependencies: ApiDependencies): void {
  putOffer(app, dependencies)
  removeOffer(app, dependencies)
  putArrival(app, dependencies)
}

function putOffer(app: App, dependencies: ApiDependencies): void {
  const offer = {
    ...mutationSchema(
      'not_found',
      'vm_deleting',
      ...LEAVING_CODES,
      'migration_ended',
      'vm_busy',
      'snapshot_under_way',
      'offers_full',
      'conflict',
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
}

function removeOffer(app: App, dependencies: ApiDependencies): void {
  const withdrawal = {
    ...mutationSchema('not_found', 'vm_deleting', 'vm_migrated', 'vm_arriving'),
    operationId: 'withdrawOffer',
    summary: 'Withdraw an offer',
    description:
      'The guest stays, and wakes if it was saved for the migration. Refused once the VM is released, and for a VM ' +
      'that comes from another host: withdraw its offer there. Without an offer it changes nothing.',
  }
  app.delete('/v1/vms/:id/migration', { schema: withdrawal }, async (request, reply): Promise<VmWire> =>
    mutate({ request, reply, dependencies }, (context, id) => withdrawOffer(context, id)),
  )
}

function putArrival(app: App, dependencies: ApiDependencies): void {
  const schema = {
    ...mutationSchema(
      ...ADMISSION_CODES,
      'migration_unavailable',
      'migration_incompatible',
      'monitor_missing',
      'source_unreachable',
      'source_refused',
    ),
    operationId: 'takeVm',
    summary: 'Take a VM from another host',
    description:
      'Reads the offer at its source, refuses what cannot come, and stores the VM with everything that it has there. The guest ' +
      'lives at its source until `observed.arrival.stage` is `released`. The generation is reached when it lives here as it did ' +
      'there. Until then the VM takes no change; a deletion is accepted while the stage is `pulling` or `refused`. The same request ' +
      'again changes nothing, and may name another address of the source.',
    body: ref('TakeVm'),
  }
  app.put('/v1/vms/:id/arrival', { schema }, async (request, reply): Promise<VmWire> => {
    const take = takeFromWire(request.body)
    if (take === undefined)
      throw invalidRequest('body', [{ pointer: '/source_url', code: 'malformed', detail: 'must be a URL' }])
    const id = request.params.id as VmId
    const commands = contextOf(dependencies)
    const refuse = (kind: MonitorKind) => refuseMonitor(commands, kind, '/migration_id')
    // A VM on record needs no look at its source.
    const isNew = commands.store.vms.get(id) === undefined
    const cordoned = isNew ? refuseNewVm(commands, id) : undefined
    const offered =
      isNew && cordoned === undefined
        ? await dependencies.arrivals.readOffer({ ...take, refuseMonitor: refuse })
        : undefined
    return mutate({ request, reply, dependencies, creates: true }, (context) => {
      if (cordoned !== undefined) return err(cordoned)
      if (offered === undefined)
        return takenAlready(context, id, take) ?? err({ code: 'not_found', detail: noVmWords(id) })
      return offered.ok ? takeVm(context, id, { ...take, ...offered.value }) : offered
    })
  })
}
