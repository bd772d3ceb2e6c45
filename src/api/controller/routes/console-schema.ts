import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { closes } from '../../../core/console/close.ts'
import { DEFAULT_WINDOW } from '../../../core/console/console-viewer.ts'
import { closed } from '../../../lib/schema-check.ts'
import { FINGERPRINT_PATTERN, GUEST_USER_PATTERN, SESSION_PATTERN } from '../../wire/values.ts'
import { PROBLEM_MEDIA_TYPE } from '../../wire/problem.ts'
import { problems, requestIdHeader } from '../../listener/answers.ts'
import { params, tags } from './vm-parts.ts'
import type { Static } from 'typebox'
import type { CloseMeaning } from '../../../core/console/close.ts'

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

const closeLines = Object.entries<CloseMeaning>(closes)
  .map(([code, { status, title, advice }]) => {
    const meaning = advice === undefined ? title : `${title}. ${advice}`
    return `| ${status} | \`${code}\` | ${meaning} |`
  })
  .join('\n')

const DESCRIPTION = `A WebSocket (RFC 6455) onto the VM.

**Binary messages are terminal bytes**, in both directions. **Text messages are JSON objects with one member**: the daemon
sends \`ConsoleFromDaemon\`, a viewer sends \`ConsoleFromViewer\`. A text message that is not understood is answered with
\`error\`, and the session goes on. A message has at most ${limits.consoleMessageBytesMax / 1024} KiB, a text at most ${limits.consoleTextCharactersMax} characters, and a viewer sends at most
${limits.consoleMessagesPerSecond} a second (${limits.consoleMessagesBurst} at once), control frames included.

**A serial console** is a session from the start of the VM to its stop. It goes on over sleeps of the guest, reboots that the
guest makes itself, and restarts of the daemon; a stop, a rebuild and \`POST …/reboot\` end it. For a stopped VM the last session is shown, then the connection ends with \`vm_stopped\`; with \`follow=true\` it
stays for the next session instead, which \`waiting\` says. For a VM that has moved to another host all connections end with \`vm_moved\`, and a request is answered \`vm_migrated\`. Input for a sleeping guest does not wake it, and reaches it when it wakes; \`guest\` says whether the guest runs. The newest ${limits.consoleHistoryBytes / 1024} KiB are kept. A cursor is an offset in its output: add the lengths of binary messages to
\`attached.cursor\`, and come back with \`since\` and \`session\` to get exactly the missed output; \`lost_bytes\` says how much of it is gone.
Input of all viewers goes to the guest in the order of its arrival; while the guest does not read, the daemon does not read from viewers.

**A shell** is opened for the connection with the daemon's own SSH key, and ends with the connection. A VM that sleeps is woken for it, within
${limits.sshWakeMs / 1000} s; the shell survives later sleeps.

Each console has at most ${limits.consoleViewersMax} viewers in each mode, and at most ${limits.consoleViewersOthersMax} of clients
that are not controllers. A viewer with more than ${limits.consoleViewerBehindBytesMax / 1024 / 1024} MiB on its way is closed. The daemon sends pings every
${limits.consolePingMs / 1000} s. It cuts off a viewer that does not answer before the next ping, or before the next but one if its input is held back. It also cuts off a viewer that has not
answered a close after ${limits.consoleCloseMs / 1000} s. The last output of a VM or a shell has ${limits.consoleLastOutputMs / 1000} s to leave before that close is sent.
A request with an \`Origin\` other than this listener is refused: browsers send the client certificate with requests of any page.

The reason of a close frame begins with a code; the text after a colon is for people.

| Status | Code | Meaning |
|---|---|---|
${closeLines}`

/** The description of the console's route for the OpenAPI document. */
export const consoleSchema = {
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
      headers: requestIdHeader,
      content: {
        'application/json': {
          schema: { anyOf: [{ $ref: 'ConsoleFromDaemon#' }, { $ref: 'ConsoleFromViewer#' }] },
        },
      },
    },
    default: {
      description: 'Before the upgrade, every other answer is a problem.',
      headers: requestIdHeader,
      content: { [PROBLEM_MEDIA_TYPE]: { schema: { $ref: 'Problem#' }, examples: {} } },
    },
    ...problems(
      'not_found',
      'state_unwritable',
      'vm_deleting',
      'vm_migrated',
      'vm_arriving',
      'vm_not_running',
      'console_viewers_full',
      'ssh_host_key_changed',
      'upgrade_required',
    ),
  },
}
