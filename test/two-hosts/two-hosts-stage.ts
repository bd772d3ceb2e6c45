/**
 * Two hosts, joined by a wire, and the network of this process, from which a controller and clients reach both. The
 * daemons are shared by the tests of a file.
 */
import { after, before } from 'node:test'
import { WIRE } from '../../lab/wires.ts'
import { undoAll } from '../contract/at-end.ts'
import { bootedLabs, LabHost, skip } from './lab-host.ts'
import { layRoads, joinLine, UPLINKS } from './roads.ts'
import { shareNodesAuthority } from './nodes-authority.ts'

export type TwoHosts = { readonly first: LabHost; readonly second: LabHost }

let hosts: TwoHosts | undefined

/** Returns the hosts; use it only in a test. */
export function both(): TwoHosts {
  if (hosts === undefined) throw new Error('the two hosts are not ready yet')
  return hosts
}

/** Prepares both hosts for the tests of a file, and removes their VMs afterwards. */
export function twoHosts(): void {
  before(async () => {
    if (skip === false) hosts = await arrive()
  })
  after(async () => {
    if (hosts === undefined) return
    const { first, second } = hosts
    await undoAll([() => leave(first), () => leave(second), () => joinLine(first)])
  })
}

async function arrive(): Promise<TwoHosts> {
  const [a, b] = bootedLabs()
  const [first, second] = [new LabHost(a, WIRE.first, UPLINKS[0]), new LabHost(b, WIRE.second, UPLINKS[1])]
  await layRoads([first, second])
  await Promise.all([first.install(), second.install()])
  await shareNodesAuthority(first, [second])
  return { first, second }
}

async function leave(host: LabHost): Promise<void> {
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
