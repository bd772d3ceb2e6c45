/** Two hosts, joined by a wire, and the network of this process, from which a controller and clients reach both. */
import { WIRE } from '../../lab/wires.ts'
import { undoAll } from '../contract/at-end.ts'
import { bootedLabs, LabHost } from './lab-host.ts'
import { joinLine, layRoads, UPLINKS } from './roads.ts'
import { shareNodesAuthority } from './nodes-authority.ts'

export type BothHosts = { readonly first: LabHost; readonly second: LabHost }

/** Lays the wires, installs both daemons, and gives them one authority of nodes; safe to repeat. */
export async function arrive(): Promise<BothHosts> {
  const [a, b] = bootedLabs()
  const [first, second] = [new LabHost(a, WIRE.first, UPLINKS[0]), new LabHost(b, WIRE.second, UPLINKS[1])]
  await layRoads([first, second])
  await Promise.all([first.install(), second.install()])
  await shareNodesAuthority(first, [second])
  return { first, second }
}

/** Starts what was stopped, joins the line, and removes all VMs. */
export const leave = ({ first, second }: BothHosts): Promise<void> =>
  undoAll([() => removeVms(first), () => removeVms(second), () => joinLine(first)])

async function removeVms(host: LabHost): Promise<void> {
  const { controller } = host
  try {
    await host.startDaemon()
    const { body } = await controller.call('GET', '/v1/vms')
    const { items } = body as unknown as { readonly items: readonly { readonly id: string }[] }
    for (const { id } of items) await controller.remove(id)
  } finally {
    controller.close()
  }
}
