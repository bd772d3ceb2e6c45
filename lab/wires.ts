/** Wires between network namespaces on this machine: a pair of veth devices each. A pair is gone with either end. */
import { runChecked } from '../tools/process.ts'
import type { LabState } from './state.ts'

/** Name of the device at each end of the wire between two labs, and the addresses at the ends. */
export const WIRE = { device: 'wire', first: '10.77.0.1', second: '10.77.0.2' } as const

/** One end of a wire: the network of a lab, or the one that this process is in. */
type End = { readonly lab?: LabState; readonly device: string; readonly address: string }

/** Joins two labs by a wire, on which their daemons reach each other. */
export const joinLabs = (first: LabState, second: LabState): Promise<void> =>
  join(
    { lab: first, device: WIRE.device, address: WIRE.first },
    { lab: second, device: WIRE.device, address: WIRE.second },
  )

/** Joins two networks by a wire with an address of the same /30 at each end. */
export async function join(first: End, second: End): Promise<void> {
  const place = ({ lab }: End): string[] =>
    lab?.leader === undefined ? [] : ['netns', `/proc/${lab.leader.pid}/ns/net`]
  // An earlier test may have ended a moment ago, and the kernel removes the wires of a network later than its
  // processes.
  for (const end of [first, second]) await ip(end, ['link', 'delete', end.device]).catch(() => '')
  const peer = ['peer', 'name', second.device, ...place(second)]
  await runChecked(['ip', 'link', 'add', first.device, ...place(first), 'type', 'veth', ...peer])
  for (const end of [first, second]) {
    await ip(end, ['address', 'add', `${end.address}/30`, 'dev', end.device])
    await ip(end, ['link', 'set', 'dev', end.device, 'up'])
  }
}

/** Runs ip(8) in the network of one end. */
const ip = ({ lab }: Pick<End, 'lab'>, argv: readonly string[]): Promise<string> =>
  runChecked([
    ...(lab?.leader === undefined ? [] : ['nsenter', '-t', String(lab.leader.pid), '-n']),
    'ip',
    ...argv,
  ])
