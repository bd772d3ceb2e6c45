/** Two hosts that the tests of a file share. */
import { after, before } from 'node:test'
import { arrive, leave } from './both-hosts.ts'
import { skip } from './lab-host.ts'
import type { BothHosts } from './both-hosts.ts'

let hosts: BothHosts | undefined

/** Returns the hosts; use it only in a test. */
export function both(): BothHosts {
  if (hosts === undefined) throw new Error('the two hosts are not ready yet')
  return hosts
}

/** Prepares both hosts for the tests of a file, and removes their VMs afterwards. */
export function twoHosts(): void {
  before(async () => {
    if (skip === false) hosts = await arrive()
  })
  after(async () => {
    if (hosts !== undefined) await leave(hosts)
  })
}
