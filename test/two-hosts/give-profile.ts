import { copyFileSync, writeFileSync } from 'node:fs'
import { TLS } from './lab-host.ts'
import type { LabHost } from './lab-host.ts'

/**
 * Gives a host a profile of another one, whose server certificate gets the address on the wire. Returns the path of the
 * profile.
 */
export async function giveProfile(host: LabHost, other: LabHost, folder: string): Promise<string> {
  await other.run('rm', `${TLS}/server.crt`, `${TLS}/server.key`)
  await other.run('vmhostd', 'setup', '--san', other.address)
  await other.run('systemctl', 'restart', 'vmhostd')
  await host.run('mkdir', '--parents', folder)
  for (const file of ['ca.crt', 'controller.crt', 'controller.key'])
    copyFileSync(`${other.root}${TLS}/${file}`, `${host.root}${folder}/${file}`)
  const profile = [
    `url = "https://${other.address}:9000"`,
    'ca = "ca.crt"',
    'cert = "controller.crt"',
    'key = "controller.key"',
  ]
  const path = `${folder}/host-2.toml`
  writeFileSync(host.root + path, `${profile.join('\n')}\n`)
  return path
}
