import { DEFAULT_WINDOW } from '../../../core/console/console-viewer.ts'
import { refuseLeftConsole, refuseWhileComing } from '../../../core/vm/leaving.ts'
import { ConsoleSockets } from '../../console/console-sockets.ts'
import { openSsh, openTty } from '../../console/open-viewer.ts'
import { noteUpgraded } from '../../listener/answer-end.ts'
import { auditUnanswered, auditedRequest } from '../../listener/audit.ts'
import { Refused } from '../../listener/refused.ts'
import { refuseForeignOrigin } from '../foreign-pages.ts'
import { handshakeFault, WEBSOCKET_VERSION } from '../upgrade.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { consoleSchema } from './console-schema.ts'
import { given } from '../../../lib/given.ts'
import { contextOf, vmOf } from './vm-parts.ts'
import type { FastifyRequest } from 'fastify'
import type { Socket } from 'node:net'
import type { Static } from 'typebox'
import type { ViewerOf, WindowSize } from '../../../core/console/console-viewer.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmRecord } from '../../../core/vm/record.ts'
import type { HostKeyPin, SessionRequest } from '../../../owners/console/ssh-sessions.ts'
import type { Watching } from '../../../owners/console/watched-console.ts'
import type { OpenedConsole } from '../../console/console-socket.ts'
import type { App } from '../../listener/app.ts'
import type { Log } from '../../../log/log.ts'
import type { ApiDependencies } from '../dependencies.ts'
import type { ConsoleQuery } from './console-schema.ts'
import type { params } from './vm-parts.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The console that this request will get after its upgrade. */
    openedConsole: OpenedConsole | undefined
  }
}

/** The user in the guest that a shell is for, unless the request names one. */
const DEFAULT_USER = 'root'

const TTY_ONLY = ['since', 'session', 'follow'] as const satisfies readonly (keyof ConsoleQuery)[]
const SSH_ONLY = ['user', 'accept_host_key'] as const satisfies readonly (keyof ConsoleQuery)[]

/** Serves the console of a VM. Every error that can be answered as a problem is answered before the upgrade. */
export function consoleRoute(app: App, dependencies: ApiDependencies): void {
  const { log, time } = dependencies
  const sockets = new ConsoleSockets({
    time,
    onBug: (error) => log.error({ error }, 'console message failed: internal error'),
  })
  app.addHook('preClose', async () => sockets.stop())
  app.decorateRequest('openedConsole', undefined)
  app.route({
    method: 'GET',
    url: '/v1/vms/:id/console',
    schema: consoleSchema,
    config: { audited: true },
    preHandler: async (request) => {
      request.audited = { asked: askedFor(request.query) }
      refuseForeignOrigin(request)
      checkTogether(request.query)
      const { socket } = request.raw
      const opened = await open(dependencies, request, (pin) => auditPin(log, request, pin))
      // Refuse it only now. A browser does not show a page why its upgrade was refused, so the page asks again without
      // one.
      if (!request.ws) opened.abandon()
      refuseWithoutUpgrade(request)
      if (socket.closed) {
        opened.abandon()
        auditUnanswered(log, request)
      } else socket.once('close', opened.abandon)
      request.openedConsole = opened
    },
    handler: (request) => refuseWithoutUpgrade(request),
    wsHandler: (socket, request) => {
      noteUpgraded(request)
      const { id: requestId, openedConsole } = request
      const fields = { request_id: requestId, vm_id: request.params.id, mode: request.query.mode ?? 'tty' }
      const viewer = sockets.take(socket)
      const beganMs = time.monotonicMs()
      socket.on('close', (status) => {
        const code = viewer.closedWith
        const duration_ms = Math.round(time.monotonicMs() - beganMs)
        log.info({ ...fields, status, ...given({ code }), duration_ms }, 'console viewer disconnected')
      })
      log.info(fields, 'console viewer connected')
      auditOpened(log, request, openedConsole)
      openedConsole?.begin(viewer)
    },
  })
}

type ConsoleRequest = FastifyRequest<{ Params: Static<typeof params>; Querystring: ConsoleQuery }>

/** Returns what the audit trail says of a console besides its VM. */
function askedFor({ mode = 'tty', user = DEFAULT_USER, accept_host_key }: ConsoleQuery) {
  if (mode === 'tty') return { mode }
  return given({ mode, guest_user: user, accepted_host_key: accept_host_key })
}

/** Writes who opened a console, or who has none for a reason that only the close of the connection gives. */
function auditOpened(log: Log, request: FastifyRequest, opened: OpenedConsole | undefined): void {
  const asked = auditedRequest(request)
  const code = opened?.closesWith
  if (code === undefined) log.audit({ ...asked, outcome: 'accepted' }, 'console opened')
  else log.audit({ ...asked, outcome: 'failed', code }, 'console not opened')
}

/**
 * Writes who pinned a host key. A pin counts for everyone, so it is in the trail even if there is no shell in the end.
 */
function auditPin(log: Log, request: FastifyRequest, { hostKey, formerHostKey }: HostKeyPin): void {
  const pin = given({ host_key: hostKey, former_host_key: formerHostKey })
  log.audit({ ...auditedRequest(request), ...pin, outcome: 'accepted' }, 'SSH host key pinned')
}

async function open(
  dependencies: ApiDependencies,
  { params: { id }, query, raw, peer }: ConsoleRequest,
  onPinned: (pin: HostKeyPin) => void,
): Promise<OpenedConsole> {
  const record = vmOf(contextOf(dependencies), id as VmId)
  // A serial console may be waited for, with `follow=true`.
  const refused = refuseLeftConsole(record) ?? (query.mode === 'ssh' ? refuseWhileComing(record) : undefined)
  if (refused !== undefined) throw new Refused(refused)
  const of: ViewerOf = peer.role === 'controller' ? 'controller' : 'other'
  const opened =
    query.mode === 'ssh'
      ? await whileOpen(raw.socket, (signal) =>
          openSsh(dependencies.shells, { ...shellRequest(record, query), of, onPinned }, signal),
        )
      : openTty(dependencies.consoles, record, watchingOf(query), of)
  if (!opened.ok) throw new Refused(opened.error)
  return opened.value
}

function watchingOf(query: ConsoleQuery): Watching {
  const { since, session, follow = false } = query
  const size = windowOf(query)
  return {
    follow,
    ...given({ window: size }),
    ...(since === undefined ? {} : { stoppedAt: { cursor: since, ...given({ session }) } }),
  }
}

function shellRequest(record: VmRecord, query: ConsoleQuery): Omit<SessionRequest, 'of'> {
  const { user = DEFAULT_USER, accept_host_key: acceptHostKey } = query
  return {
    record,
    user,
    window: windowOf(query) ?? DEFAULT_WINDOW,
    ...given({ acceptHostKey }),
  }
}

/**
 * Runs work with a signal that aborts when the connection is gone. A connection may carry many requests, so the
 * listener is removed afterwards.
 */
async function whileOpen<T>(socket: Socket, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const gone = new AbortController()
  const abort = (): void => gone.abort(new Error('the viewer left'))
  if (socket.closed) abort()
  socket.once('close', abort)
  try {
    return await work(gone.signal)
  } finally {
    socket.off('close', abort)
  }
}

function refuseWithoutUpgrade(request: FastifyRequest): void {
  if (request.ws) return
  const fault = handshakeFault(request.raw)
  const detail = `connect with a WebSocket client, e.g. vmhostctl console${fault === undefined ? '' : `: ${fault}`}`
  throw new Refused(
    { code: 'upgrade_required', detail },
    { upgrade: 'websocket', 'sec-websocket-version': WEBSOCKET_VERSION },
  )
}

/** Checks what the schema cannot: rules about several parameters together. */
function checkTogether(query: ConsoleQuery): void {
  const { mode = 'tty' } = query
  const foreign = mode === 'tty' ? SSH_ONLY : TTY_ONLY
  const complaints = foreign
    .filter((name) => query[name] !== undefined)
    .map((name) => complaint(name, `does not go with mode=${mode}`))
  if (query.session !== undefined && query.since === undefined && mode === 'tty')
    complaints.push(complaint('session', 'goes with since: send both'))
  if ((query.cols === undefined) !== (query.rows === undefined))
    complaints.push(
      complaint(query.cols === undefined ? 'rows' : 'cols', 'is half a window: send cols and rows'),
    )
  if (complaints.length > 0) throw invalidRequest('query', complaints)
}

const complaint = (name: keyof ConsoleQuery, detail: string) =>
  ({ pointer: `/${name}`, code: 'not_allowed', detail }) as const

const windowOf = ({ cols, rows }: ConsoleQuery): WindowSize | undefined =>
  cols === undefined || rows === undefined ? undefined : { cols, rows }
