import { parseSha256, parseVmId } from '../../core/ids.ts'
import { CLIENT_LEFT, onAnswerEnd } from './answer-end.ts'
import { scrub } from '../../log/scrub.ts'
import { given } from '../../lib/given.ts'
import type { FastifyRequest } from 'fastify'
import type { HostFault } from '../../core/errors.ts'
import type { Log } from '../../log/log.ts'
import type { App } from './app.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The mutation that this request made, for the access log. */
    operationId: string | undefined
    /** The VM of the snapshot that the request is about. */
    vmId: string | undefined
    /** The code of the problem that this request was answered with. */
    problemCode: string | undefined
    /** The fault of the host behind that problem, with the paths that the answer leaves out. */
    hostFault: HostFault | string | undefined
  }
}

/** Length to which the log cuts an unknown path. */
const PATH_CHARACTERS_MAX = 100

/**
 * Logs one line per request, also if its client left: reads without an error at debug, everything else at info,
 * internal errors at error. Never logs bodies or queries.
 */
export function logAccess(app: App, log: Log, peerField?: string): void {
  app.decorateRequest('operationId', undefined)
  app.decorateRequest('vmId', undefined)
  app.decorateRequest('problemCode', undefined)
  app.decorateRequest('hostFault', undefined)
  onAnswerEnd(app, (request, reply, { how, ms }) => {
    const status = how === 'none' ? CLIENT_LEFT : reply.statusCode
    const peer = peerField === undefined || request.peerName === '' ? {} : { [peerField]: request.peerName }
    const cut = how === 'cut' ? { cut: true } : {}
    log[levelOf(request.method, status)]({ ...fieldsOf(request, { status, ms }), ...cut, ...peer }, 'request')
  })
}

function levelOf(method: string, status: number): 'debug' | 'info' | 'error' {
  if (status === 500) return 'error'
  const read = method === 'GET' || method === 'HEAD'
  return read && (status < 400 || status === CLIENT_LEFT) ? 'debug' : 'info'
}

function fieldsOf(
  request: FastifyRequest,
  { status, ms }: { readonly status: number; readonly ms: number },
): object {
  const route = request.is404 ? undefined : request.routeOptions.url
  return {
    request_id: request.id,
    method: request.method,
    ...(route === undefined ? { path: shortPath(request.raw.url) } : { route }),
    ...idOf(route, request.params),
    ...given({ vm_id: request.vmId, operation_id: request.operationId }),
    status,
    ...given({ code: request.problemCode, error: request.hostFault }),
    duration_ms: Math.round(ms * 10) / 10,
  }
}

/** Fields for the id in a route's path; that of other routes is of a VM. */
const ID_FIELDS: readonly (readonly [path: string, field: string])[] = [
  ['/v1/snapshots/', 'snapshot_id'],
  ['/v1/migrations/', 'migration_id'],
]

const IMAGE_ROUTE = '/v1/images/:sha256'

/** Returns the id that the request is about. All ids have the same form; text of any other form is not repeated. */
export function idOf(route: string | undefined, params: unknown): Record<string, string> {
  if (typeof params !== 'object' || params === null) return {}
  const image: unknown = route === IMAGE_ROUTE ? Reflect.get(params, 'sha256') : undefined
  const digest = typeof image === 'string' ? parseSha256(image) : undefined
  if (digest !== undefined) return { image_sha256: digest }
  const text: unknown = Reflect.get(params, 'id')
  const id = typeof text === 'string' ? parseVmId(text) : undefined
  if (id === undefined) return {}
  const [, field = 'vm_id'] = ID_FIELDS.find(([path]) => route?.startsWith(path) === true) ?? []
  return { [field]: id }
}

function shortPath(url: string | undefined): string {
  const [path = ''] = (url ?? '').split('?', 1)
  return scrub(path.slice(0, PATH_CHARACTERS_MAX))
}
