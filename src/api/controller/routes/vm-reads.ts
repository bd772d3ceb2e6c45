import { given } from '../../../lib/given.ts'
import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { limits } from '../../../config/limits.ts'
import { ref } from '../../wire/named.ts'
import { countersToWire } from '../../wire/counters.ts'
import { planToWire } from '../../wire/plan.ts'
import { JSON_MEDIA_TYPE, noQuery, problems, requestIdHeader } from '../../listener/answers.ts'
import { goneSignal } from '../../listener/answer-end.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { KeptVms } from '../kept-vms.ts'
import { changedVms } from './changed-vms.ts'
import {
  conditionalAnswers,
  conditionalHeaders,
  preferenceHeader,
  readConditionally,
  waitHeader,
  waitMsOf,
} from './preconditions.ts'
import { pageOf } from './page.ts'
import { pageQueryOf, vmFilterMembers } from './vm-filter.ts'
import { contextOf, params, tags, vmAnswer, vmOf } from './vm-parts.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmRecord } from '../../../core/vm/record.ts'
import type { CountersWire } from '../../wire/counters.ts'
import type { PlanWire } from '../../wire/plan.ts'
import type { VmListWire } from '../../wire/vm.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves reads of VMs: one, or a page of them. */
export function vmReadRoutes(app: App, dependencies: ApiDependencies): void {
  const kept = new KeptVms()
  listVms(app, dependencies, kept)
  getVm(app, dependencies, kept)
  getPlan(app, dependencies)
  getCounters(app, dependencies)
}

function listVms(app: App, dependencies: ApiDependencies, kept: KeptVms): void {
  const schema = {
    operationId: 'listVms',
    tags,
    summary: 'List VMs',
    description:
      'Ordered by id, a page at a time. With `changed_after` only VMs that have changed since, ordered by revision, without pages: ' +
      'go on with the `revision` of the answer. With `Prefer: wait=N` too, it is a watch on the list: the answer comes when a VM has changed or ' +
      'is gone, or after N seconds without any. A VM whose record is damaged is left out, which does not mean that it is gone.',
    querystring: Type.Object(
      {
        ...vmFilterMembers,
        changed_after: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description:
              'The `revision` of an earlier answer. A VM that left a filter would not be seen, so it goes with `limit` only.',
          }),
        ),
      },
      closed,
    ),
    headers: waitHeader,
    response: {
      200: {
        ...ref('VmList'),
        description: 'A page of VMs.',
        headers: { ...requestIdHeader, ...preferenceHeader },
      },
      ...problems('changes_not_kept'),
    },
  }
  app.addHook('preClose', async () => dependencies.listWaits.end())
  app.get('/v1/vms', { schema }, async (request, reply): Promise<VmListWire> => {
    const { limit = limits.listItemsDefault, cursor, state, label, changed_after } = request.query
    if (changed_after !== undefined) {
      refuseBeside({ cursor, state, label })
      const { signal } = request
      return changedVms(dependencies, {
        after: changed_after,
        limit,
        waitMs: waitMsOf(request, reply),
        signal,
      })
    }
    const { store } = contextOf(dependencies)
    const { newest: revision } = store.events
    const vms = store.vms.revisions(pageQueryOf(request.query).query)
    const page = { ...pageOf('vms', vms, { limit, show: (vm) => vm }), revision }
    const text = kept.pageText(page, (id) => store.vms.readable(id))
    // Answer only what is on the disk.
    await store.flushed()
    return reply.type(JSON_MEDIA_TYPE).send(text as unknown as VmListWire)
  })
}

/** Refuses members of the query that do not go with `changed_after`. */
function refuseBeside(members: Readonly<Record<string, string | undefined>>): void {
  const names = Object.keys(given(members))
  if (names.length === 0) return
  throw invalidRequest(
    'query',
    names.map((name) => ({
      pointer: `/${name}`,
      code: 'not_allowed',
      detail: 'must not be given together with changed_after',
    })),
  )
}

function getVm(app: App, dependencies: ApiDependencies, kept: KeptVms): void {
  app.addHook('preClose', async () => dependencies.waits.end())
  const schema = {
    operationId: 'getVm',
    tags,
    summary: 'Get a VM',
    description:
      'The desired state, the state that the host has reached, and the two generations. With `If-None-Match` and `Prefer: wait=N` it ' +
      'is a long poll: the answer comes when the VM has changed, or as 304 after N seconds.',
    params,
    querystring: noQuery,
    headers: conditionalHeaders('the VM'),
    response: {
      ...conditionalAnswers(vmAnswer('The VM.'), 'The VM'),
      ...problems('not_found'),
    },
  }
  app.get('/v1/vms/:id', { schema }, async (request, reply) => {
    const id = request.params.id as VmId
    const context = contextOf(dependencies)
    const { store } = context
    const read = (): VmRecord => vmOf(context, id)
    const found = await readConditionally(request, reply, {
      id,
      waits: dependencies.waits,
      // The text belongs to this revision only as long as nothing else runs.
      find: () => {
        const vm = store.vms.revisionOf(id) ?? read()
        return { revision: vm.revision, text: kept.text(vm, read) }
      },
      flushed: () => store.flushed(),
    })
    if (found === undefined) return reply.code(304).send()
    return reply.type(JSON_MEDIA_TYPE).send(found.text)
  })
}

function getPlan(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'getVmPlan',
    tags,
    summary: 'Get the plan of a VM',
    description:
      'Looks at the host and lists what the daemon would do next, step by step with reasons, or why it waits. Changes nothing.',
    params,
    querystring: noQuery,
    response: {
      200: { ...ref('Plan'), description: 'The plan.', headers: requestIdHeader },
      ...problems('not_found'),
    },
  }
  app.get('/v1/vms/:id/plan', { schema }, async (request, reply): Promise<PlanWire> => {
    const context = contextOf(dependencies)
    const record = vmOf(context, request.params.id as VmId)
    const plan = await dependencies.plan(record, context.store.vms.inputs(record.id), goneSignal(reply))
    return planToWire(plan, record.operationId)
  })
}

function getCounters(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'getVmCounters',
    tags,
    summary: 'Get the counters of a VM',
    description:
      'CPU time, traffic, drops, disk operations, wakes and restarts, each with `since`: the moment from which it counts.',
    params,
    querystring: noQuery,
    response: {
      200: { ...ref('Counters'), description: 'The counters.', headers: requestIdHeader },
      ...problems(
        'not_found',
        'capacity_unknown',
        'systemd_unavailable',
        'network_failed',
        'firewall_failed',
        'monitor_unreachable',
        'monitor_refused',
      ),
    },
  }
  app.get('/v1/vms/:id/counters', { schema }, async (request, reply): Promise<CountersWire> => {
    const record = vmOf(contextOf(dependencies), request.params.id as VmId)
    return countersToWire(await dependencies.counters(record, goneSignal(reply)))
  })
}
