import { answered } from '../../client/api-client.ts'
import { ApiProblem } from '../../client/api-problem.ts'
import { watchVm } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { usageError } from '../ctl-error.ts'
import { waitFor } from '../wait.ts'
import type { Vm } from '../../client/api-client.ts'
import type { CtlError } from '../ctl-error.ts'
import type { Context, Daemon } from '../command.ts'
import type { Wait } from '../wait.ts'

/** The two hosts of a move, and the VM that moves. */
export type Move = { readonly id: string; readonly source: Daemon; readonly destination: Daemon }

/** The VM as each host had it when it was last seen. */
export type Sides = { readonly here?: Vm | undefined; readonly there?: Vm | undefined }

export type Departure = NonNullable<Vm['observed']['migration']>
export type Arrival = NonNullable<Vm['observed']['arrival']>

export const departureOf = ({ here }: Sides): Departure | undefined => here?.observed.migration
export const arrivalOf = ({ there }: Sides): Arrival | undefined => there?.observed.arrival

/** Waits for a request to a daemon. Throws CtlError with words about that daemon. */
export const at = <T>({ failed }: Pick<Daemon, 'failed'>, request: Promise<T>): Promise<T> =>
  request.catch((error: unknown) => {
    throw failed(error)
  })

/** Returns a VM as a daemon has it; undefined if it has none. */
export const lookAt = ({ client, failed }: Daemon, id: string): Promise<Vm | undefined> =>
  answered<Vm>(client.GET('/v1/vms/{id}', { params: { path: { id } } })).then(
    ({ data }) => data,
    (error: unknown) => {
      if (error instanceof ApiProblem && error.code === 'not_found') return undefined
      throw failed(error)
    },
  )

/** Waits for a VM that a daemon has, until its end there at the latest. Throws CtlError. */
export const waitAt = (
  context: Context,
  daemon: Daemon,
  wait: Pick<Wait<Vm>, 'id' | 'words' | 'isOver' | 'missed' | 'onwards'>,
): Promise<unknown> =>
  at(
    daemon,
    waitFor<Vm>(context, {
      ...wait,
      watch: (_client, name, options) => watchVm(daemon.client, name, options),
      wasThere: true,
      defaultSeconds: limits.ctlMigrateSecondsDefault,
      notes: () => [],
      standing: ({ observed: { error } }) => ({
        words: '',
        advice: error === undefined ? [] : [`the reason: ${error}`],
      }),
    }),
  )

/** Returns the host of a daemon's URL. */
export const hostOf = ({ url }: Pick<Daemon, 'url'>): string => new URL(url).hostname

/** Returns the error for a destination that is the source. `leaves` says how VMs leave that: "is to be emptied". */
export const namesSource = (destination: Daemon, node: string, leaves: string): CtlError =>
  usageError(
    `--to names ${hostOf(destination)}, which is the host that ${leaves} (${node})`,
    'give the profile of another host',
  )
