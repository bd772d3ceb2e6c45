import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { isSleepingOrWaking } from '../../core/vm/at-rest.ts'
import { refuseLeftConsole, refuseWhileComing } from '../../core/vm/leaving.ts'
import { unreachable } from '../../lib/assert.ts'
import type { Rejection } from '../../core/errors.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { ConsoleHub } from '../../owners/console/console-hub.ts'
import type { Closing, Watching } from '../../owners/console/watched-console.ts'
import type { OpenedConsole } from './console-socket.ts'
import type { ConsoleViewer, ViewerOf } from '../../core/console/console-viewer.ts'
import type { VmId } from '../../core/ids.ts'
import type { SessionEnd, SshSession } from '../../owners/console/ssh-session.ts'
import type { SessionRefusal, SessionRequest, SshSessions } from '../../owners/console/ssh-sessions.ts'

/** Takes a place at the serial console of a VM, or says why the VM has none. */
export function openTty(
  hub: ConsoleHub,
  record: VmRecord,
  watching: Watching,
  of: ViewerOf,
): Result<OpenedConsole, Rejection> {
  const { id, deleting, observed } = record
  const standing = hub.standing(id)
  const isLost = standing === 'detached' && HAS_GUEST.includes(observed.state)
  if (deleting && standing !== 'attached' && standing !== 'detached')
    return err({ code: 'vm_deleting', detail: `${id} is being deleted, and its console is gone` })
  if (!watching.follow && (standing === 'none' || isLost)) return err(refuseWithoutConsole(record))
  const release = hub.reserve(id, of)
  if (release === undefined) {
    const detail = `${viewersWords(hub.viewers(id))} watch the console of ${id} already`
    return err({ code: 'console_viewers_full', detail })
  }
  return ok({ begin: (viewer) => hub.watch(id, viewer, watching), abandon: release })
}

/** Says which bound has no place left, when `taken` places are. */
const viewersWords = (taken: number): string =>
  taken >= limits.consoleViewersMax
    ? `${limits.consoleViewersMax} viewers`
    : `${limits.consoleViewersOthersMax} viewers of clients that are not controllers`

/** States in which there is a guest, which should then have a console. */
const HAS_GUEST: readonly ObservedState[] = ['running', 'pausing', 'paused']

/** Returns the refusal of a viewer whose VM has no console here. */
const refuseWithoutConsole = (record: VmRecord): Rejection =>
  refuseWithout(record, ({ id, observed: { state } }) => {
    // The VM has no console since the host's last boot; a sleep alone keeps the console.
    const next = isSleepingOrWaking(state) ? 'its wake' : 'its next start'
    return `${id} is ${state}: start it, or follow its console to wait for ${next}`
  })

/** Returns the refusal of a reader whose VM has no output here. */
export const refuseWithoutOutput = (record: VmRecord): Rejection =>
  refuseWithout(
    record,
    ({ id, observed: { state } }) =>
      `${id} is ${state}, and has had no console since the host's last boot: nothing is kept of its output`,
  )

function refuseWithout(record: VmRecord, words: (record: VmRecord) => string): Rejection {
  const { id, observed } = record
  const detail = HAS_GUEST.includes(observed.state)
    ? `${id} is ${observed.state}, but its console is not stored: stop it and start it again`
    : words(record)
  return refuseLeftConsole(record) ?? refuseWhileComing(record) ?? { code: 'vm_not_running', detail }
}

/**
 * Logs in to a guest. The error is a reason that can be answered as a problem. Any other reason for having no shell
 * closes the viewer after the upgrade, because browsers do not show why an upgrade was refused.
 *
 * @param signal aborts when the connection that asks is gone
 */
export async function openSsh(
  sessions: Pick<SshSessions, 'open'>,
  request: SessionRequest,
  signal: AbortSignal,
): Promise<Result<OpenedConsole, Rejection>> {
  try {
    const opened = await sessions.open(request, signal)
    if (opened.ok) return ok(shellFor(opened.value))
    const refused = refusalOf(request.record.id, opened.error)
    return 'rejection' in refused ? err(refused.rejection) : ok(closedWith(refused))
  } catch (error) {
    // The client is gone, so the code does not matter.
    if (signal.aborted) return ok(closedWith({ code: 'internal' }))
    throw error
  }
}

const closedWith = ({ code, words }: Closing): OpenedConsole => ({
  begin: (viewer) => viewer.close(code, words),
  abandon: () => {},
  closesWith: code,
})

const shellFor = (session: SshSession): OpenedConsole => ({
  begin: (viewer) => tie(session, viewer),
  abandon: () => session.close(),
})

/** Connects a viewer to a shell. If one of the two stops reading, the other is no longer read. */
function tie(session: SshSession, viewer: ConsoleViewer & { readonly unsentBytes: number }): void {
  let isPaused = false
  const goOn = (): void => {
    if (!isPaused && viewer.unsentBytes < limits.consoleShellResumeBytes) session.resume()
  }
  viewer.listen({
    onInput: (bytes) => {
      session.write(bytes)
      if (session.inputWaiting > limits.consoleInputBytesMax) viewer.pauseInput()
    },
    onResize: (size) => session.resize(size),
    onPosition: () =>
      viewer.send({ kind: 'error', code: 'invalid_message', detail: 'a shell has no position' }),
    onOutputPaused: (pauses) => {
      isPaused = pauses
      if (pauses) session.pause()
      else goOn()
    },
    onSent: goOn,
    onClosed: () => session.close(),
  })
  session.onInputRoom(() => viewer.resumeInput())
  viewer.send({ kind: 'attached', place: undefined })
  session.attach({
    onOutput: (bytes) => {
      viewer.output(bytes)
      if (viewer.unsentBytes > limits.consoleShellAheadBytesMax) session.pause()
    },
    onEnd: (end) => {
      const { code, words } = closingOf(end)
      viewer.close(code, words)
    },
  })
}

function closingOf(end: SessionEnd): Closing {
  switch (end.kind) {
    case 'exited':
      return { code: 'shell_ended', words: `exit status ${end.status}` }
    case 'killed':
      return { code: 'shell_ended', words: `killed by ${end.signal}` }
    case 'lost':
      return { code: 'ssh_lost', words: end.because }
    case 'vm_moved':
      return { code: 'vm_moved', words: end.node }
    case 'vm_stopped':
    case 'vm_deleted':
    case 'daemon_stops':
      return { code: end.kind }
    default:
      return unreachable(end)
  }
}

function refusalOf(id: VmId, refusal: SessionRefusal): { readonly rejection: Rejection } | Closing {
  switch (refusal.kind) {
    case 'vm_not_running':
      return {
        rejection: {
          code: 'vm_not_running',
          detail: `${id} is ${refusal.state}: ${whyNobody(refusal.state)}`,
        },
      }
    case 'full':
      return {
        rejection: {
          code: 'console_viewers_full',
          detail: `${viewersWords(refusal.taken)} have a shell in ${id} already`,
        },
      }
    case 'host_key_changed':
      return { rejection: { code: 'ssh_host_key_changed', detail: hostKeyWords(id, refusal) } }
    case 'daemon_stops':
      return { code: 'daemon_stops' }
    case 'no_address':
      return { code: 'ssh_no_address' }
    case 'no_route':
    case 'refused':
    case 'timed_out':
    case 'key_refused':
    case 'shell_refused':
    case 'failed':
      return { code: `ssh_${refusal.kind}`, words: refusal.detail }
    case 'host_key_refused':
      // A session never ends with this: it reports `host_key_changed`, with the keys.
      return { code: 'ssh_failed', words: refusal.detail }
    default:
      return unreachable(refusal)
  }
}

function whyNobody(state: ObservedState): string {
  if (isSleepingOrWaking(state)) return 'it was asked to wake and did not; observed.error says why'
  return `no one can log in to it${state === 'failed' ? '; observed.error says why' : ''}`
}

function hostKeyWords(
  id: VmId,
  { offered, pinned }: Extract<SessionRefusal, { kind: 'host_key_changed' }>,
): string {
  const query = `accept_host_key=${offered.replaceAll('+', '%2B')}`
  const instead = pinned === undefined ? 'the one to accept' : `the one it had (${pinned})`
  return `the guest of ${id} has the host key ${offered}, not ${instead}: find out why; to accept it, connect with ${query}`
}
