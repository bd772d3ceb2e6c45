/**
 * Two hosts, joined by a wire, and the network of this process, from which a controller and clients reach both. The
 * daemons are shared by the tests of a file.
 */
import { after, before } from 'node:test'
import { WIRE, join } from '../../lab/wires.ts'
import { undoAll } from '../contract/at-end.ts'
import { bootedLabs, LabHost, skip } from './lab-host.ts'
import { shareNodesAuthority } from './nodes-authority.ts'

/** The networks between this process and each host. */
const TO_FIRST = { device: 'first', here: '10.77.1.1', there: '10.77.1.2' }
const TO_SECOND = { device: 'second', here: '10.77.2.1', there: '10.77.2.2' }
const UPLINK = 'uplink'

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
  after(() =>
    undoAll(hosts === undefined ? [] : [hosts.first, hosts.second].map((host) => () => leave(host))),
  )
}

async function arrive(): Promise<TwoHosts> {
  const [a, b] = bootedLabs()
  for (const [lab, { device, here, there }] of [
    [a, TO_FIRST],
    [b, TO_SECOND],
  ] as const)
    await join({ device, address: here }, { lab, device: UPLINK, address: there })
  const [first, second] = [
    new LabHost(a, WIRE.first, TO_FIRST.there),
    new LabHost(b, WIRE.second, TO_SECOND.there),
  ]
  await Promise.all([first.install(), second.install()])
  await shareNodesAuthority(first, [second])
  return { first, second }
}

async function leave({ controller }: LabHost): Promise<void> {
  try {
    const { body } = await controller.call('GET', '/v1/vms')
    const { items } = body as unknown as { readonly items: readonly { readonly id: string }[] }
    for (const { id } of items) await controller.remove(id)
  } finally {
    controller.close()
  }
}
