import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { toWire } from './member-mapper.ts'
import { SESSION_PATTERN } from './values.ts'
import type { Static } from 'typebox'
import type {
  Attachment,
  ConsoleGuest,
  DaemonMessage,
  MessageErrorCode,
} from '../../core/console/console-viewer.ts'

const sessionSchema = Type.String({
  pattern: SESSION_PATTERN,
  description:
    'Names a session: the time from a start of the VM to its stop. A restart of the daemon does not change it.',
})
const cursorSchema = Type.Integer({
  minimum: 0,
  description: 'Offset of the next binary byte in the output of the session.',
})

const errorCodes = [
  'not_json',
  'unknown_message',
  'invalid_message',
] as const satisfies readonly MessageErrorCode[]

const guestStates = ['running', 'sleeping', 'paused'] as const satisfies readonly ConsoleGuest[]

/**
 * Text messages from the daemon; each has exactly one member. Like answers they are open:
 * later versions may add members.
 */
export const consoleFromDaemonSchema = Type.Object(
  {
    attached: Type.Optional(
      Type.Object(
        {
          mode: Type.Enum(['tty', 'ssh'], { type: 'string', description: 'The only member with `ssh`.' }),
          session: Type.Optional(sessionSchema),
          cursor: Type.Optional(cursorSchema),
          replay_bytes: Type.Optional(
            Type.Integer({
              minimum: 0,
              description: 'Number of bytes of history that follow; then the output is live.',
            }),
          ),
          lost_bytes: Type.Optional(
            Type.Integer({
              minimum: 0,
              description:
                'Number of bytes that are gone between `since` and `cursor`. 0 if `since` is of another session.',
            }),
          ),
          over: Type.Optional(
            Type.Boolean({
              description:
                'The session has ended: its last output follows, then `waiting` or the end. Input until then is dropped.',
            }),
          ),
        },
        {
          description:
            'Begins each session. Comes again within one if the guest wrote faster than the daemon could pass it on; ' +
            '`lost_bytes` then says how much is missing.',
        },
      ),
    ),
    position: Type.Optional(
      Type.Object({ session: sessionSchema, cursor: cursorSchema }, { description: 'Answers `position`.' }),
    ),
    guest: Type.Optional(
      Type.Object(
        { state: Type.Enum(guestStates, { type: 'string' }) },
        {
          description:
            'Comes after the history of a session if the state is known, and whenever it changes. What is typed waits until the guest runs.',
        },
      ),
    ),
    waiting: Type.Optional(
      Type.Object(
        { for: Type.Enum(['start'], { type: 'string' }) },
        {
          description:
            'With `follow=true`: there is no session now; `attached` comes with the next. Input until then is dropped.',
        },
      ),
    ),
    error: Type.Optional(
      Type.Object(
        {
          code: Type.Enum(errorCodes, {
            type: 'string',
            description:
              '`not_json`: the text is not JSON. `unknown_message`: it is not an object with one known member. ' +
              '`invalid_message`: the value of the member is not valid.',
          }),
          detail: Type.String({
            description: 'The error, with a JSON pointer (RFC 6901), and what to do.',
          }),
        },
        { description: 'A text message was ignored. The session goes on.' },
      ),
    ),
  },
  {
    minProperties: 1,
    maxProperties: 1,
    description: 'A text message of the daemon on a console: exactly one of these members.',
    examples: [
      {
        attached: {
          mode: 'tty',
          session: '9f86d081884c7d65',
          cursor: 4096,
          replay_bytes: 262_144,
          lost_bytes: 0,
        },
      },
    ],
  },
)

/** Text messages from a viewer; each has exactly one member. */
export const consoleFromViewerSchema = Type.Object(
  {
    resize: Type.Optional(
      Type.Object(
        {
          cols: Type.Integer({ minimum: 1, maximum: limits.consoleColsMax }),
          rows: Type.Integer({ minimum: 1, maximum: limits.consoleRowsMax }),
        },
        {
          ...closed,
          description:
            'Sets the window of the terminal. The terminal has one window for all viewers, so the last size sent counts.',
        },
      ),
    ),
    position: Type.Optional(Type.Object({}, { ...closed, description: 'Asks for `position`.' })),
    output: Type.Optional(
      Type.Object(
        { paused: Type.Boolean() },
        {
          ...closed,
          description:
            'Holds the output of a shell back, or lets it come again, for a viewer that cannot stop reading, such as a browser. ' +
            'What is on its way still comes. The program in the guest waits meanwhile. A serial console is not held back.',
        },
      ),
    ),
  },
  {
    ...closed,
    minProperties: 1,
    maxProperties: 1,
    description: 'A text message of a viewer on a console: exactly one of these members.',
    examples: [{ resize: { cols: 120, rows: 40 } }],
  },
)

export type ConsoleFromDaemonWire = Static<typeof consoleFromDaemonSchema>

const placeToWire = toWire<Attachment, Omit<NonNullable<ConsoleFromDaemonWire['attached']>, 'mode'>>()({})

export function daemonMessageToWire(message: DaemonMessage): ConsoleFromDaemonWire {
  switch (message.kind) {
    case 'attached':
      return {
        attached:
          message.place === undefined ? { mode: 'ssh' } : { mode: 'tty', ...placeToWire(message.place) },
      }
    case 'position':
      return { position: { session: message.session, cursor: message.cursor } }
    case 'guest':
      return { guest: { state: message.state } }
    case 'waiting':
      return { waiting: { for: 'start' } }
    case 'error':
      return { error: { code: message.code, detail: message.detail } }
    default:
      return unreachable(message)
  }
}
