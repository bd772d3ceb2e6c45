import { Type } from 'typebox'
import { closed } from '../../../lib/schema-check.ts'
import { ref } from '../../wire/named.ts'
import { vmStateToWire } from '../../wire/vm-state.ts'
import { JSON_MEDIA_TYPE, problems, requestIdHeader } from '../../listener/answers.ts'
import { pageOf } from './page.ts'
import { pageQueryOf, vmFilterMembers } from './vm-filter.ts'
import { contextOf, tags } from './vm-parts.ts'
import { limits } from '../../../config/limits.ts'
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
      200: { ...ref('VmStateList'), description: 'A page of states.', headers: requestIdHeader },
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

/**
 * Keeps answers as the bytes that are sent, until the store has another revision. Each change that a reader can see has
 * a revision of its own (`src/store/database/revisions.ts`). A controller asks often, and VMs at rest do not change.
 */
class KeptAnswers {
  #revision: number | undefined
  readonly #byQuery = new Map<string, Buffer>()

  /** Returns the answer to a query at this revision. `make` returns its text. */
  take(revision: number, query: object, make: () => string): Buffer {
    if (revision !== this.#revision) this.#byQuery.clear()
    this.#revision = revision
    const key = JSON.stringify(query)
    const kept = this.#byQuery.get(key)
    if (kept !== undefined) return kept
    if (this.#byQuery.size >= limits.keptAnswersMax) this.#byQuery.clear()
    const body = Buffer.from(make())
    this.#byQuery.set(key, body)
    return body
  }
}
