import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { RESTART_POLICIES } from '../../core/desired.ts'
import { changedExit } from '../../core/vm/exit-policy.ts'
import { EXIT_CAUSES } from '../../core/vm/last-exit.ts'
import { closed } from '../../lib/schema-check.ts'
import { given } from '../../lib/given.ts'
import { orNull } from './or-null.ts'
import { shownText, time, timeSchema } from './values.ts'
import type { Static } from 'typebox'
import type { ExitPolicy } from '../../core/desired.ts'
import type { ExitChange } from '../../core/vm/create.ts'
import type { LastExit } from '../../core/vm/last-exit.ts'
import type { Observed } from '../../core/vm/record.ts'

/** Members of desired state about the end of the guest. */
export const exitMembers = {
  restart_policy: Type.Optional(
    Type.Enum(RESTART_POLICIES, {
      type: 'string',
      description:
        'What follows when the guest ends by itself. `always`, as when absent: it is started again, with back-off. ' +
        '`on_failure`: only if it panicked or its monitor failed. `never`: it stays `stopped` until a request for power. ' +
        'A guest that reboots itself goes on in each case.',
    }),
  ),
  delete_after_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.deleteAfterSecondsMax,
      description:
        'The VM is deleted, with its disk, when it has been `stopped` for this long: by a request, from its creation on, or ' +
        'because its guest ended and is not started again. Absent: it stays. While it is protected, it stays.',
      examples: [3600],
    }),
  ),
  delete_on_exit: Type.Optional(
    Type.Boolean({
      description:
        'The VM is deleted, with its disk, as soon as its guest has ended by itself and is not started again.',
    }),
  ),
}

export const setExitSchema = Type.Object(
  {
    restart_policy: orNull(exitMembers.restart_policy),
    delete_after_seconds: orNull(exitMembers.delete_after_seconds),
    delete_on_exit: orNull(exitMembers.delete_on_exit),
  },
  {
    ...closed,
    description: 'A member that is absent stays as it is stored; `null` makes it as if it was never given.',
    examples: [{ restart_policy: 'on_failure', delete_after_seconds: 3600, delete_on_exit: null }],
  },
)

type ExitWire = Static<ReturnType<typeof Type.Object<typeof exitMembers>>>

/** Returns undefined for what holds by default. */
export const exitFromWire = (wire: ExitWire): ExitPolicy | undefined =>
  changedExit(undefined, exitChangeFromWire(wire))

/** Translates a change of the exit policy. */
export const exitChangeFromWire = (wire: Static<typeof setExitSchema>): ExitChange =>
  given({
    restartPolicy: wire.restart_policy,
    deleteAfterSeconds: wire.delete_after_seconds,
    deleteOnExit: wire.delete_on_exit,
  })

export const exitToWire = (exit: ExitPolicy | undefined): ExitWire =>
  given({
    restart_policy: exit?.restartPolicy,
    delete_after_seconds: exit?.deleteAfterSeconds,
    delete_on_exit: exit?.deleteOnExit,
  })

const lastExitSchema = Type.Object(
  {
    at: timeSchema,
    cause: Type.Enum(EXIT_CAUSES, {
      type: 'string',
      description:
        'Judged by the exit status of the monitor and by what the kernel of the guest wrote last. `unknown`: the monitor ended ' +
        'without an error, and the console does not say why. `host_down`: the host lost power, or was shut down without ' +
        'a save; the guest is started again whatever its restart policy.',
    }),
    detail: Type.String({ description: 'The cause in words.', examples: ['the guest powered off'] }),
    ran_seconds: Type.Integer({
      minimum: 0,
      description:
        'How long it ran since it started or, if it slept since, woke. After `host_down` until the host was back.',
      examples: [42],
    }),
    exit_status: Type.Optional(
      Type.Integer({ description: 'Exit status of the monitor. Absent if none was seen.', examples: [0] }),
    ),
    console: Type.Array(Type.String(), {
      description: `The last lines of the console, at most ${limits.exitConsoleLines}, without control characters.`,
      examples: [['[   12.345678] reboot: Power down']],
    }),
  },
  { description: 'The last end of the guest that no request asked for. Absent before the first.' },
)

/** Members of `observed` about the end of the guest. */
export const exitsMembers = {
  restarts: Type.Optional(
    Type.Integer({
      minimum: 1,
      description:
        'How often the guest was started again after it had ended by itself, reboots included. Absent before the first.',
    }),
  ),
  last_exit: Type.Optional(lastExitSchema),
}

type ExitsWire = { restarts?: number; last_exit?: Static<typeof lastExitSchema> }

export const exitsToWire = ({ restarts, lastExit }: Observed): ExitsWire =>
  given({ restarts, last_exit: lastExit && lastExitToWire(lastExit) })

const lastExitToWire = (exit: LastExit): NonNullable<ExitsWire['last_exit']> => ({
  at: time(exit.atMs),
  cause: exit.cause,
  detail: shownText(exit.because),
  ran_seconds: Math.floor(exit.ranMs / 1000),
  ...given({ exit_status: exit.exitStatus }),
  console: exit.consoleLines.map((line) => shownText(line)),
})
