/** `vmhostctl host drain --to`: the VMs of a host move to others. */
import { limits } from '../../config/limits.ts'
import { Arguments } from '../command.ts'
import { exitStatus } from '../exit-status.ts'
import { about, isOffered, place } from '../migrate/destinations.ts'
import { lookAt } from '../migrate/hosts.ts'
import { movedLine, movedWords, seeThrough, stayed } from '../migrate/move-vm.ts'
import { parseTimeoutMs } from '../units.ts'
import { listVms } from '../vm/list.ts'
import { MovesProgress } from './moves-progress.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'
import type { CtlError } from '../ctl-error.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Destination } from '../migrate/destinations.ts'
import type { Sides } from '../migrate/hosts.ts'

/** The moves that empty a host. */
export type Moves = {
  readonly source: Daemon
  readonly destinations: readonly Destination[]
  /** Where destinations find the source. */
  readonly url: string
  /** The most VMs that move at the same time. */
  readonly atOnce: number
  /** The VMs that are to move, in this order. */
  readonly vms: readonly Vm[]
}

/** The VMs that have moved, and the worst status of the others. */
export type Outcome = { readonly moved: number; readonly status: ExitStatus }

/**
 * Moves VMs, a few at a time, and shows how far they are. A VM that stays does not stop the others:
 * its error is reported. One that is deleted meanwhile does not count. Begins none after the timeout. Throws CtlError
 * if the source does not answer.
 */
export async function moveGuests(context: Context, moves: Moves): Promise<Outcome> {
  const { shell, given, json } = context
  const { vms } = moves
  const timeoutMs = parseTimeoutMs(
    given.text('timeout') ?? String(limits.ctlMigrateSecondsDefault),
    '--timeout',
  )
  const endsMs = shell.monotonicMs() + timeoutMs
  const progress = new MovesProgress(shell, { total: vms.length, json })
  const forgetInterrupt = shell.onInterrupt(() => progress.interrupted())
  let [moved, worst]: [number, ExitStatus] = [0, exitStatus.done]
  const one = async (vm: Vm): Promise<void> => {
    const leftMs = Math.max(0, endsMs - shell.monotonicMs())
    try {
      const words = await moveOne(contextOf(context, { vm, progress, leftMs }), moves, vm)
      moved += 1
      progress.moved(vm.id, words)
    } catch (error) {
      const isOver = await isDeleted(moves, vm.id)
      progress.stays(vm.id, isOver ? 'deleted meanwhile' : undefined)
      if (!isOver)
        worst = worse(worst, context.fail(withName(moves.source.failed(error, vm.id), vm.id), vm.id))
    }
  }
  // With a timeout of 0 the first ones begin all the same.
  const mayBegin = (begun: number): boolean =>
    (begun < moves.atOnce || shell.monotonicMs() < endsMs) &&
    worst !== exitStatus.unreachable &&
    !(given.isSet('fail-on-error') && worst !== exitStatus.done)
  try {
    const begun = await inLanes(vms, moves.atOnce, { act: one, mayBegin })
    const isCut = begun < vms.length && worst === exitStatus.done
    return { moved, status: isCut ? exitStatus.timedOut : worst }
  } finally {
    forgetInterrupt()
    progress.end()
  }
}

/** Takes items in their order, some at a time, as long as more may begin. Returns how many were taken. */
async function inLanes<T>(
  items: readonly T[],
  lanes: number,
  { act, mayBegin }: { act: (item: T) => Promise<void>; mayBegin: (begun: number) => boolean },
): Promise<number> {
  let begun = 0
  const lane = async (): Promise<void> => {
    while (begun < items.length && mayBegin(begun)) {
      const item = items[begun] as T
      begun += 1
      // One after the other is what a lane is.
      // oxlint-disable-next-line no-await-in-loop
      await act(item)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return begun
}

/** Returns the higher of two statuses. */
export const worse = (a: ExitStatus, b: ExitStatus): ExitStatus => (b > a ? b : a)

/** Lists the VMs that are to move: those under way first, then by name. A record that holds no guest stays. */
export async function movingVms(
  context: Context,
  destinations: readonly Destination[],
): Promise<readonly Vm[]> {
  const labels = context.given.texts('label')
  const all = await listVms(context.client(), labels.length === 0 ? {} : { label: labels.join(',') })
  const nodes = new Set(destinations.map(({ node }) => node))
  const isHere = ({ desired, observed: { state, migration, arrival } }: Vm): boolean =>
    state !== 'deleting' &&
    arrival?.stage !== 'refused' &&
    (migration?.stage !== 'released' || nodes.has(desired.migration?.node ?? ''))
  const vms = all.filter(isHere).toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return [...vms.filter(isOffered), ...vms.filter((vm) => !isOffered(vm))]
}

/** Moves a VM; returns the words about where it is. Throws CtlError. */
async function moveOne(context: Context, { source, destinations, url }: Moves, vm: Vm): Promise<string> {
  const named = about(source, vm.id)
  const { move, offered } = await place(context, { source: named, destinations, vm, url })
  const seen: { sides: Sides } = { sides: {} }
  try {
    const moved = await seeThrough(context, move, { offered, seen })
    if (context.json) context.shell.stdout.write(`${movedLine(move, moved)}\n`)
    return movedWords(move, moved)
  } catch (error) {
    throw await stayed(move, error, seen.sides)
  }
}

/** Returns whether a VM that did not move is deleted: its deletion is under way, or neither side has it. */
async function isDeleted({ source, destinations }: Moves, id: string): Promise<boolean> {
  try {
    const here = await lookAt(source, id)
    if (here !== undefined) return isBeingDeleted(here)
    const there = await Promise.all(destinations.map(({ daemon }) => lookAt(daemon, id)))
    return there.every((vm) => vm === undefined || vm.observed.arrival?.stage === 'refused')
  } catch {
    return false
  }
}

/** Returns whether a VM is deleted at its source. Once released, it lives on, and only its record there goes. */
const isBeingDeleted = ({ observed: { state, migration } }: Vm): boolean =>
  migration?.withdrawn_because === 'deleted' || (state === 'deleting' && migration?.stage !== 'released')

type OneOfMany = { readonly vm: Vm; readonly progress: MovesProgress; readonly leftMs: number }

/** Returns the context of one move, whose progress is a part of a shared one. */
function contextOf(context: Context, { vm: { id }, progress, leftMs }: OneOfMany): Context {
  const { shell, given, json } = context
  const { stderr } = shell
  const values = {
    timeout: `${Math.ceil(leftMs / 1000)}s`,
    cold: given.isSet('cold'),
    'fail-on-error': given.isSet('fail-on-error'),
    'source-url': given.text('source-url'),
  }
  return {
    ...context,
    given: new Arguments([id], values),
    shell: {
      ...shell,
      stderr: { write: (text) => stderr.write(text), isTty: false, columns: 0 },
      onInterrupt: () => () => {},
    },
    progress: progress.of(id),
    warn: (line) => {
      if (!json) progress.warn(line)
    },
  }
}

/** Returns an error that names the VM. */
const withName = (error: CtlError, id: string): CtlError =>
  error.message.includes(id) ? error : error.reworded({ message: `${id}: ${error.message}` })
