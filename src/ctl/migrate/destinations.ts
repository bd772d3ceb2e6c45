import { answered } from '../../client/api-client.ts'
import { CtlError } from '../ctl-error.ts'
import { at, hostOf, lookAt, namesSource } from './hosts.ts'
import { beginMove } from './move-vm.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'
import type { Move } from './hosts.ts'
import type { Offered } from './offer.ts'

/** A host that VMs may move to, and the name of its node certificate. */
export type Destination = { readonly daemon: Daemon; readonly node: string }

/** Looks at each host that VMs are to move to. Throws CtlError if one does not answer, or is the source. */
export async function destinationsOf(
  source: Daemon,
  daemons: readonly Daemon[],
): Promise<readonly Destination[]> {
  const here = await lookAtHost(source)
  const found = await Promise.all(daemons.map(async (daemon) => ({ daemon, ...(await lookAtHost(daemon)) })))
  const same = found.find(({ node }) => node === here.node)
  if (same === undefined) return found
  throw namesSource(same.daemon, here.node, 'is to be emptied')
}

/** Returns whether the source offers the VM, or has released it. */
export const isOffered = (vm: Vm | undefined): boolean => {
  const stage = vm?.observed.migration?.stage
  return stage !== undefined && stage !== 'withdrawn'
}

type Placement = {
  readonly source: Daemon
  readonly destinations: readonly Destination[]
  /** The VM at the source. */
  readonly vm: Vm
  /** Where destinations find the source. */
  readonly url: string
}

export type Placed = { readonly move: Move; readonly offered: Offered }

/**
 * Begins the move of a VM to the first destination that takes it: the one that it is offered to already; otherwise that
 * with the most free memory comes first. Throws CtlError if none takes it; then nothing has changed.
 */
export async function place(context: Context, { source, destinations, vm, url }: Placement): Promise<Placed> {
  const { id } = vm
  const node = isOffered(vm) ? vm.desired.migration?.node : undefined
  const offeredTo = destinations.filter((destination) => destination.node === node)
  const refusals: { readonly host: string; readonly error: CtlError }[] = []
  for (const { daemon } of offeredTo.length > 0 ? offeredTo : await byRoom(destinations)) {
    const move: Move = { id, source, destination: about(daemon, id) }
    try {
      return { move, offered: await beginMove(context, move, url) }
    } catch (error) {
      refusals.push({ host: hostOf(daemon), error: source.failed(error) })
      if (isOffered(await lookAt(source, id))) break
    }
  }
  throw refused(id, refusals)
}

/** Returns a daemon whose errors name the VM. */
export const about = (daemon: Daemon, id: string): Daemon => ({
  ...daemon,
  failed: (error) => daemon.failed(error, id),
})

function refused(
  id: string,
  refusals: readonly { readonly host: string; readonly error: CtlError }[],
): CtlError {
  const last = refusals.at(-1)
  if (last === undefined || refusals.length === 1) return last?.error ?? noDestination(id)
  const { code, status, problem, host: failed } = last.error
  return new CtlError(`${id} is accepted by no destination`, {
    code,
    status,
    problem,
    host: failed,
    advice: refusals.flatMap(({ host, error: { message, advice } }) => [
      message.startsWith(`${host}: `) ? message : `${host}: ${message}`,
      ...advice,
    ]),
  })
}

const noDestination = (id: string): CtlError =>
  new CtlError(`${id} is accepted by no destination: none answers`, { code: 'connection_refused', status: 4 })

/** Sorts destinations by the memory that each can still promise. Leaves out what does not answer, unless none does. */
async function byRoom(destinations: readonly Destination[]): Promise<readonly Destination[]> {
  const [only] = destinations
  if (destinations.length === 1 && only !== undefined) return [only]
  const seen = await Promise.all(
    destinations.map(async (destination) => ({
      destination,
      freeMib: await lookAtHost(destination.daemon).then(
        ({ freeMib }) => freeMib,
        () => undefined,
      ),
    })),
  )
  const answering = seen.flatMap(({ destination, freeMib }) =>
    freeMib === undefined ? [] : [{ destination, freeMib }],
  )
  if (answering.length === 0) return destinations
  return answering.toSorted((a, b) => b.freeMib - a.freeMib).map(({ destination }) => destination)
}

type SeenHost = { readonly node: string; readonly freeMib: number }

async function lookAtHost(daemon: Daemon): Promise<SeenHost> {
  const { host, capacity } = (await at(daemon, answered(daemon.client.GET('/v1/sync', {})))).data
  const { allocatable_mib: allocatable, committed_mib: committed } = capacity.memory
  return { node: host.id, freeMib: allocatable - committed }
}
