/**
 * The ways of packets: a wire from this process to each host, the wire between the hosts, and the route to a guest,
 * which a controller moves with it.
 */
import { join } from '../../lab/wires.ts'
import { runChecked } from '../../tools/process.ts'
import type { LabHost } from './lab-host.ts'

/** Addresses of the hosts on their wires to this process. */
export const UPLINKS = ['10.77.1.2', '10.77.2.2'] as const
const HERE = ['10.77.1.1', '10.77.2.1'] as const
const DEVICES = ['first', 'second'] as const
/** Address of the clients of guests: the same, whichever host has the guest. */
export const CLIENT = '10.77.9.1'

/** Joins this process's network to both hosts. */
export async function layRoads(hosts: readonly LabHost[]): Promise<void> {
  await runChecked(['ip', 'link', 'set', 'dev', 'lo', 'up'])
  await runChecked(['ip', 'address', 'add', `${CLIENT}/32`, 'dev', 'lo'])
  for (const [index, host] of hosts.entries()) {
    const [here, device] = [HERE[index], DEVICES[index]]
    if (here === undefined || device === undefined) throw new Error('there are roads to two hosts')
    await join({ device, address: here }, { lab: host.lab, device: 'uplink', address: host.uplink })
    await host.run('ip', 'route', 'replace', `${CLIENT}/32`, 'via', here)
  }
}

/** Routes a guest's packets to the host that has the guest now. */
export async function routeGuest(address: string, host: LabHost): Promise<void> {
  await runChecked(['ip', 'route', 'replace', `${address}/32`, 'via', host.uplink, 'src', CLIENT])
}

const CUT = 'wire_cut'
const CUT_RULES = `table inet ${CUT} {
  chain from { type filter hook prerouting priority -400; iifname "wire" drop; }
  chain to { type filter hook postrouting priority 400; oifname "wire" drop; }
}`

/** Lets all packets between the hosts vanish, in both directions and without a word. `host` is either of them. */
export async function cutLine(host: LabHost): Promise<void> {
  await host.run('nft', CUT_RULES)
}

/** Undoes a cut; safe to repeat. */
export async function joinLine(host: LabHost): Promise<void> {
  await host.run('nft', `table inet ${CUT}; delete table inet ${CUT}`)
}
