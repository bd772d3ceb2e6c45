/** One authority for the nodes of two hosts, made as docs/certificates.md says in "Certificates of nodes". */
import { existsSync } from 'node:fs'
import { TLS } from './lab-host.ts'
import type { LabHost } from './lab-host.ts'

const AUTHORITY = [`${TLS}/nodes-ca.crt`, `${TLS}/nodes-ca.key`] as const

/** Gives hosts one authority of nodes; safe to repeat. */
export async function shareNodesAuthority(first: LabHost, others: readonly LabHost[]): Promise<void> {
  if (existsSync(first.root + AUTHORITY[0])) return
  await joinNodes(first)
  for (const other of others) {
    for (const file of AUTHORITY) first.copyTo(other, file)
    await joinNodes(other)
  }
  for (const host of [first, ...others]) {
    await host.run('rm', AUTHORITY[1])
    await host.run('systemctl', 'restart', 'vmhostd')
    await host.controller.ready()
  }
}

async function joinNodes(host: LabHost): Promise<void> {
  const line = `ca_file = "${AUTHORITY[0]}"`
  await host.run('sed', '-i', `/^\\[coordination\\]$/a ${line}`, '/etc/vmhostd/config.toml')
  await host.run('rm', `${TLS}/node.crt`, `${TLS}/node.key`)
  await host.run('vmhostd', 'setup', '--san', host.address)
}
