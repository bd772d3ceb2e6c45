import { setMaintenance } from '../../../commands/maintenance/set-maintenance.ts'
import { vmsLeft } from '../../../owners/maintenance/drainer.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { maintenanceFromWire, maintenanceProgressToWire } from '../../wire/maintenance.ts'
import { given } from '../../../lib/given.ts'
import { ref } from '../../wire/named.ts'
import { BODY_CODES, locationHeader, noQuery, problems, requestIdHeader } from '../../listener/answers.ts'
import { checkPreconditions, etagOf, preconditionHeaders } from './preconditions.ts'
import { contextOf } from './vm-parts.ts'
import type { MaintenanceProgressWire, SetMaintenanceWire } from '../../wire/maintenance.ts'
import type { App } from '../../listener/app.ts'
import type { Audited } from '../../listener/audit.ts'
import type { ApiDependencies } from '../dependencies.ts'

const tags = ['Host']

const headers = {
  ...requestIdHeader,
  ETag: {
    type: 'string',
    description:
      'The revision of the state that is set, in quotes, for `If-Match`. What the host has reached changes without it, ' +
      'so a read takes no `If-None-Match`.',
  },
}

const answer = (description: string) => ({ ...ref('Maintenance'), description, headers })

/** Serves the desired state of the host. */
export function maintenanceRoutes(app: App, dependencies: ApiDependencies): void {
  getMaintenance(app, dependencies)
  putMaintenance(app, dependencies)
}

function getMaintenance(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'getMaintenance',
    tags,
    summary: 'Get whether the host takes more, and which guests are left',
    description: 'The state that was set last. It outlives the daemon and a boot of the host.',
    querystring: noQuery,
    response: { 200: answer('The state of the host.'), ...problems() },
  }
  app.get('/v1/maintenance', { schema }, async (_request, reply): Promise<MaintenanceProgressWire> => {
    const context = contextOf(dependencies)
    const { store } = context
    reply.header('etag', etagOf(store.maintenance))
    const shown = maintenanceProgressToWire(store.maintenance.get(), vmsLeft(context))
    // Answer only what is on the disk.
    await store.flushed()
    return shown
  })
}

function putMaintenance(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'setMaintenance',
    tags,
    summary: 'Take the host out of service, or back',
    description:
      'A cordoned host refuses what it would have to hold in addition with `host_cordoned`. Its VMs keep their desired state, and ' +
      'take every other change. Guests of a host that is to be drained come to rest, a few at a time, and nothing starts or wakes; ' +
      'a host that is `schedulable` or `cordoned` again brings them back. The same request again changes nothing.',
    querystring: noQuery,
    headers: preconditionHeaders('the host'),
    body: ref('SetMaintenance'),
    response: {
      200: answer('Nothing changed: the host is desired to be so already.'),
      202: { ...answer('Stored.'), headers: { ...headers, ...locationHeader } },
      ...problems('state_unwritable', 'precondition_failed', ...BODY_CODES),
    },
  }
  app.put('/v1/maintenance', { schema }, async (request, reply): Promise<MaintenanceProgressWire> => {
    const asked = askedFor(request.body)
    request.audited = { asked }
    const context = contextOf(dependencies)
    const { store } = context
    request.audited = { asked, stateBefore: store.maintenance.get().state }
    const wanted = maintenanceFromWire(request.body)
    if (wanted === undefined)
      throw invalidRequest('body', [
        { pointer: '/drain', code: 'not_allowed', detail: 'must be absent unless the state is drained' },
      ])
    checkPreconditions(request.headers, store.maintenance, 'state of the host')
    const { maintenance, changed } = setMaintenance(context, wanted)
    reply.header('etag', etagOf(store.maintenance))
    if (!changed) request.audited = { ...request.audited, outcome: 'unchanged' }
    await store.flushed()
    reply.code(changed ? 202 : 200)
    const shown = maintenanceProgressToWire(maintenance, vmsLeft(context))
    if (!changed) return shown
    reply.header('location', '/v1/maintenance')
    request.operationId = maintenance.operationId
    return { ...shown, ...given({ operation_id: maintenance.operationId }) }
  })
}

/** Returns what a request asks for, for the audit trail. */
function askedFor(body: SetMaintenanceWire): NonNullable<Audited['asked']> {
  const { guests } = (maintenanceFromWire(body) ?? body).drain ?? {}
  return given({ state: body.state, guests, grace_seconds: body.drain?.grace_seconds })
}
