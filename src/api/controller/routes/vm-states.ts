import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { ref } from '../../wire/named.ts'
import { vmStateToWire } from '../../wire/vm-state.ts'
import { KeptAnswers } from '../kept-answers.ts'
import { JSON_MEDIA_TYPE, problems } from '../../listener/answers.ts'
import { pageOf } from './page.ts'
import { pageQueryOf, vmFilterMembers } from './vm-filter.ts'
import { contextOf, tags } from './vm-parts.ts'
import type { VmStateListWire } from '../../wire/vm-state.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves names and states of VMs, for a client that asks about many of them often. */
export function vmStateRoutes(app: App, dependencies: ApiDependencies): void {
  const schema = {
    operationId: 'listVmStates',
    tags,
    summary: 'List states of VMs',
    description:
      'The id, the generations, the state and the error of each VM, ordered by id, a page at a time. For a client that has many ' +
      'VMs and asks often: it costs a fraction of the list of whole VMs. To follow changes, pass `revision` to `GET /v1/events` as `after`.',
    querystring: Type.Object(vmFilterMembers, closed),
    response: {
      200: { ...ref('VmStateList'), description: 'A page of states.' },
      ...problems(),
    },
  }
  const kept = new KeptAnswers()
  app.get('/v1/vm-states', { schema }, async ({ query: asked }, reply): Promise<VmStateListWire> => {
    const { store } = contextOf(dependencies)
    const revision = store.events.newest
    const body = kept.take(revision, asked, () => {
      const { limit, query } = pageQueryOf(asked)
      const page = pageOf('vms', store.vms.summaries(query), { limit, show: vmStateToWire })
      return reply.serializeInput({ ...page, revision } satisfies VmStateListWire, '200') as string
    })
    // Answer only what is on the disk.
    await store.flushed()
    // These bytes are the serialized page.
    return reply.type(JSON_MEDIA_TYPE).send(body as unknown as VmStateListWire)
  })
}
