import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { closes } from '../../../core/console/close.ts'
import { DEFAULT_WINDOW } from '../../../core/console/console-viewer.ts'
import { ConsoleSockets } from '../../console/console-sockets.ts'
import { openSsh } from '../../console/ssh-viewer.ts'
import { openTty } from '../../console/tty-viewer.ts'
import { PROBLEM_MEDIA_TYPE } from '../../wire/problem.ts'
import { FINGERPRINT_PATTERN, GUEST_USER_PATTERN, SESSION_PATTERN } from '../../wire/patterns.ts'
import { Refused } from '../refused.ts'
import { handshakeFault, WEBSOCKET_VERSION } from '../upgrade.ts'
import { invalidRequest } from '../validation.ts'
import { problems } from './answers.ts'
import { closed, contextOf, params, tags, vmOf } from './vm-parts.ts'
import type { FastifyRequest } from 'fastify'
import type { Socket } from 'node:net'
import type { Static } from 'typebox'
import type { CloseMeaning } from '../../../core/console/close.ts'
import type { WindowSize } from '../../../core/console/console-viewer.ts'
import type { VmId } from '../../../core/ids.ts'
import type { VmRecord } from '../../../core/vm/record.ts'
import type { SessionRequest } from '../../../owners/console/ssh-sessions.ts'
import type { Watching } from '../../../owners/console/watched-console.ts'
import type { OpenedConsole } from '../../console/opened-console.ts'
import type { App } from '../app.ts'
import type { ApiDependencies } from '../dependencies.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The console that this request will get after its upgrade. */
    openedConsole: OpenedConsole | undefined
  }
}

const window = (what: string, maximum: number, standard: number) =>
  Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum,
      description: `Sets the ${what} of the terminal at once. Without \`cols\` and \`rows\`, a serial console keeps its window, and a shell has ${standard}.`,
    }),
  )

const querystring = Type.Object(
  {
    mode: Type.Optional(
      Type.Enum(['tty', 'ssh'], {
        type: 'string',
        default: 'tty',
        description:
          '`tty`: the serial console, which all viewers share. `ssh`: a shell for this connection alone.',
      }),
    ),
    since: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          '`tty`: a cursor. Output since then is replayed. Without it, or if the session never got that far, all kept output is replayed.',
      }),
    ),
    session: Type.Optional(
      Type.String({
        pattern: SESSION_PATTERN,
        description: '`tty`: the session of `since`. `since` counts only if this is the present session.',
      }),
    ),
    follow: Type.Optional(
      Type.Boolean({
        default: false,
        description: '`tty`: wait for a session if there is none, and stay connected when it ends.',
      }),
    ),
    cols: window('columns', limits.consoleColsMax, DEFAULT_WINDOW.cols),
    rows: window('rows', limits.consoleRowsMax, DEFAULT_WINDOW.rows),
    user: Type.Optional(
      Type.String({
        pattern: GUEST_USER_PATTERN,
        default: 'root',
        description: '`ssh`: the user to log in as.',
      }),
    ),
    accept_host_key: Type.Optional(
      Type.String({
        pattern: FINGERPRINT_PATTERN,
        description:
          '`ssh`: the fingerprint of the present host key of the guest, to accept it, as `ssh_host_key_changed` shows it.',
      }),
    ),
  },
  closed,
)

export type ConsoleQuery = Static<typeof querystring>

const TTY_ONLY = ['since', 'session', 'follow'] as const satisfies readonly (keyof ConsoleQuery)[]
const SSH_ONLY = ['user', 'accept_host_key'] as const satisfies readonly (keyof ConsoleQuery)[]

const closeLines = Object.entries<CloseMeaning>(closes)
  .map(([code, { status, title, advice }]) => {
    const meaning = advice === undefined ? title : `${title}. ${advice}`
    return `| ${status} | \`${code}\` | ${meaning} |`
  })
  .join('\n')

const DESCRIPTION = `A WebSocket (RFC 6455) onto the VM.

**Binary messages are terminal bytes**, in both directions. **Text messages are JSON objects with one member**: the daemon
sends \`ConsoleFromDaemon\`, a viewer sends \`ConsoleFromViewer\`. A text message that is not understood is answered with
\`error\`, and the session goes on. A message has at most ${limits.consoleMessageBytesMax / 1024} KiB, and a viewer sends at most
${limits.consoleMessagesPerSecond} a second (${limits.consoleMessagesBurst} at once), control frames included.

**A serial console** is a session from the start of the VM to its stop, including reboots and sleeps of the guest and restarts of
the daemon. For a stopped VM the last session is shown, then the connection ends with \`vm_stopped\`; \`follow=true\` waits for the next
session instead. Input for a sleeping guest does not wake it, and reaches it when it wakes. The newest ${limits.consoleHistoryBytes / 1024} KiB are kept. A cursor is an offset in its output: add the lengths of binary messages to
\`attached.cursor\`, and come back with \`since\` and \`session\` to get exactly the missed output; \`lost_bytes\` says how much of it is gone.
Input of all viewers goes to the guest in the order of its arrival; while the guest does not read, the daemon does not read from viewers.

**A shell** is opened for the connection with the daemon's own SSH key, and ends with the connection. A VM that sleeps is woken for it, within
${limits.sshWakeMs / 1000} s; the shell survives later sleeps.

Each console has at most ${limits.consoleViewersMax} viewers in each mode. A viewer with more than ${limits.consoleViewerBehindBytesMax / 1024 / 1024} MiB on its way is closed. The daemon sends pings every
${limits.consolePingMs / 1000} s. It cuts off a viewer that does not answer before the next ping, or before the next but one if its input is held back. It also cuts off a viewer that has not
answered a close after ${limits.consoleCloseMs / 1000} s. The last output of a VM or a shell has ${limits.consoleLastOutputMs / 1000} s to leave before that close is sent.
A request with an \`Origin\` other than this listener is refused: browsers send the client certificate with requests of any page.

The reason of a close frame begins with a code; the text after a colon is for people.

| Status | Code | Meaning |
|---|---|---|
${closeLines}`

const schema = {
  operationId: 'openConsole',
  tags,
  summary: 'Watch and type on the console of a VM',
  description: DESCRIPTION,
  params,
  querystring,
  response: {
    101: {
      description:
        'The connection is now a WebSocket. The content described here is that of its text messages.',
      content: {
        'application/json': {
          schema: { anyOf: [{ $ref: 'ConsoleFromDaemon#' }, { $ref: 'ConsoleFromViewer#' }] },
        },
      },
    },
    default: {
      description: 'Before the upgrade, every other answer is a problem.',
      content: { [PROBLEM_MEDIA_TYPE]: { schema: { $ref: 'Problem#' }, examples: {} } },
    },
    ...problems(
      'not_found',
      'starting_up',
      'state_unwritable',
      'vm_deleting',
      'vm_not_running',
      'console_viewers_full',
      'ssh_host_key_changed',
      'upgrade_required',
    ),
  },
}

/** Serves the console of a VM. Every error that can be answered as a problem is answered before the upgrade. */
export function consoleRoute(app: App, rooms: ApiDependencies): void {
  const { log, time } = rooms
  const sockets = new ConsoleSockets({
    time,
    onBug: (error) => log.error({ error }, 'console message failed: internal error'),
  })
  app.addHook('preClose', async () => sockets.stop())
  app.decorateRequest('openedConsole', undefined)
  app.route({
    method: 'GET',
    url: '/v1/vms/:id/console',
    schema,
    preHandler: async (request) => {
      refuseForeignOrigin(request)
      checkTogether(request.query)
      const { socket } = request.raw
      const opened = await open(rooms, request)
      // Refuse it only now. A browser does not show a page why its upgrade was refused, so the page asks again without
      // one.
      if (!request.ws) opened.abandon()
      refuseWithoutUpgrade(request)
      if (socket.closed) opened.abandon()
      else socket.once('close', opened.abandon)
      request.openedConsole = opened
    },
    handler: (request) => refuseWithoutUpgrade(request),
    wsHandler: (socket, request) => {
      const { id: requestId, openedConsole } = request
      const fields = { request_id: requestId, vm_id: request.params.id, mode: request.query.mode ?? 'tty' }
      const viewer = sockets.take(socket)
      const beganMs = time.monotonicMs()
      socket.on('close', (status) => {
        const code = viewer.closedWith
        const duration_ms = Math.round(time.monotonicMs() - beganMs)
        log.info(
          { ...fields, status, ...(code === undefined ? {} : { code }), duration_ms },
          'console viewer disconnected',
        )
      })
      log.info(fields, 'console viewer connected')
      openedConsole?.begin(viewer)
    },
  })
}

type ConsoleRequest = FastifyRequest<{ Params: Static<typeof params>; Querystring: ConsoleQuery }>

async function open(
  rooms: ApiDependencies,
  { params: { id }, query, raw }: ConsoleRequest,
): Promise<OpenedConsole> {
  const record = vmOf(contextOf(rooms), id as VmId)
  const opened =
    query.mode === 'ssh'
      ? await whileOpen(raw.socket, (signal) => openSsh(rooms.shells, shellRequest(record, query), signal))
      : openTty(rooms.consoles, record, watchingOf(query))
  if (!opened.ok) throw new Refused(opened.error)
  return opened.value
}

function watchingOf(query: ConsoleQuery): Watching {
  const { since, session, follow = false } = query
  const size = windowOf(query)
  return {
    follow,
    ...(size === undefined ? {} : { window: size }),
    ...(since === undefined
      ? {}
      : { stoppedAt: { cursor: since, ...(session === undefined ? {} : { session }) } }),
  }
}

function shellRequest(record: VmRecord, query: ConsoleQuery): SessionRequest {
  const { user = 'root', accept_host_key: acceptHostKey } = query
  return {
    record,
    user,
    window: windowOf(query) ?? DEFAULT_WINDOW,
    ...(acceptHostKey === undefined ? {} : { acceptHostKey }),
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

/**
 * Refuses a page of another origin. A browser may send its request with no Origin header, and that would still open a
 * shell.
 */
function refuseForeignOrigin({ headers, protocol }: FastifyRequest): void {
  const { origin, host } = headers
  const own = `${protocol}://${host}`
  const isOwn = origin === undefined || origin.toLowerCase() === own.toLowerCase()
  if (isOwn && !FOREIGN_SITES.has(String(headers['sec-fetch-site']))) return
  const detail = `a page of another origin may not open a console: the Origin header must be ${own}, or not be there`
  throw new Refused({ code: 'forbidden', detail })
}

/** Values of Sec-Fetch-Site (W3C, "Fetch Metadata Request Headers"). */
const FOREIGN_SITES: ReadonlySet<string> = new Set(['cross-site', 'same-site'])

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

export const windowOf = ({ cols, rows }: ConsoleQuery): WindowSize | undefined =>
  cols === undefined || rows === undefined ? undefined : { cols, rows }
