import { given } from '../../lib/given.ts'
import { idOf } from './access-log.ts'
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Log } from '../../log/log.ts'
import type { App, Transport } from './app.ts'
import type { Problem } from '../wire/problem.ts'

/** Numbers of the state of a record; a snapshot has no generation. */
export type Versions = { readonly generation?: number; readonly revision: number }

/** The effect of a mutation on its object. */
export type Audited = {
  readonly before?: Versions | undefined
  /** Absent if it was refused, or if the object is gone. */
  readonly after?: Versions
  /** Set if the request was accepted and changed nothing. */
  readonly outcome?: 'unchanged' | 'rehearsed'
  /** Further fields of the request, which the operation and its object do not say. Nothing secret. */
  readonly asked?: Readonly<Record<string, string | number>>
  /** The desired state of the object before, if a change of that is what was asked for. */
  readonly stateBefore?: string
}

declare module 'fastify' {
  interface FastifyRequest {
    audited: Audited | undefined
  }
  interface FastifyContextConfig {
    /** Set on a route that reads, but whose use is audited as if it were a mutation. */
    readonly audited?: true
  }
}

type ObjectIds = Readonly<Record<string, string>>

/** Finds the present versions of the object with these ids; undefined if there is none. */
export type FindVersions = (ids: ObjectIds) => Versions | undefined

type AuditOptions = { readonly log: Log; readonly find?: FindVersions }

const READS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Writes a line of the audit trail for each mutation, accepted or refused, when its answer is decided. It does not wait
 * until the answer is sent: a client that leaves before that has changed something all the same.
 */
export function auditMutations(app: App, { log, find }: AuditOptions): void {
  app.decorateRequest('audited', undefined)
  app.addHook('onSend', (request, reply, payload, done) => {
    if (isAudited(request)) log.audit(fieldsOf(request, reply, find), 'request audited')
    done(null, payload)
  })
}

/** Audits a request whose client left before an answer was decided. What it asked for may go on. */
export function auditUnanswered(log: Log, request: FastifyRequest): void {
  if (isAudited(request)) log.audit({ ...auditedRequest(request), outcome: 'unanswered' }, 'request audited')
}

const isAudited = ({ method, routeOptions }: FastifyRequest): boolean =>
  !READS.has(method) || routeOptions.config.audited === true

/** Audits a mutation that was refused before it reached a route. */
export function auditUnrouted(
  log: Log,
  transport: Transport,
  request: IncomingMessage,
  problem: Problem,
): void {
  if (READS.has(request.method)) return
  const { method } = request
  const { status, code, request_id } = problem
  const peer = transport.peer(request)
  log.audit({ method, ...peer, outcome: outcomeOf(status), status, code, request_id }, 'request audited')
}

/** Returns who asked for what, without what came of it. */
export function auditedRequest(request: FastifyRequest): object {
  const route = request.is404 ? undefined : request.routeOptions.url
  return {
    ...given({ action: request.routeOptions.schema?.operationId }),
    method: request.method,
    ...request.peer,
    ...idOf(route, request.params),
    ...given({ vm_id: request.vmId }),
    ...request.audited?.asked,
    request_id: request.id,
  }
}

function fieldsOf(request: FastifyRequest, reply: FastifyReply, find: FindVersions | undefined): object {
  const { statusCode } = reply
  const audited = request.audited ?? {}
  const refused = statusCode >= 400
  const ids = idOf(request.is404 ? undefined : request.routeOptions.url, request.params)
  const before = audited.before ?? (refused ? found(find, ids) : undefined)
  const after = audited.after ?? (refused ? before : undefined)
  return {
    ...auditedRequest(request),
    ...given({
      state_before: audited.stateBefore,
      generation_before: before?.generation,
      generation_after: after?.generation,
      revision_before: before?.revision,
      revision_after: after?.revision,
    }),
    outcome: audited.outcome !== undefined && !refused ? audited.outcome : outcomeOf(statusCode),
    status: statusCode,
    ...given({ code: request.problemCode, operation_id: request.operationId }),
  }
}

/** The answer is decided: a store that cannot be read must not change it. */
function found(find: FindVersions | undefined, ids: ObjectIds): Versions | undefined {
  try {
    return find?.(ids)
  } catch {
    return undefined
  }
}

/** Returns the outcome that the status of an answer stands for. */
export const outcomeOf = (status: number): 'accepted' | 'refused' | 'failed' =>
  status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'
