/*
 * The move in the demo, beside its two labs: the VM of the first goes to the second with `vmhostctl vm migrate`, and the
 * same guest answers there.
 */
import { copyFileSync, writeFileSync } from 'node:fs'
import { arrive } from '../test/two-hosts/both-hosts.ts'
import { TLS } from '../test/two-hosts/lab-host.ts'
import { step, StepFailed } from './step.ts'
import type { LabHost } from '../test/two-hosts/lab-host.ts'

const VM = 'web-1'
const FOLDER = '/root/host-2'
/** Holds the boot id of the guest, for the second host. */
const BOOT_ID = '/root/demo-boot-id'

try {
  const { first, second } = await step(
    'a second host, and one authority for the node certificates of both',
    arrive,
  )
  for (const { controller } of [first, second]) controller.close()
  await giveProfile(first, second)
  first.copyTo(second, BOOT_ID)
  const moved = await step(`vmhostctl vm migrate ${VM} --to host-2.toml, on the first host`, () =>
    first.run(
      ...['vmhostctl', 'vm', 'migrate', VM, '--to', `${FOLDER}/host-2.toml`],
      ...['--source-url', `https://${first.address}:9001`],
    ),
  )
  for (const line of moved.split('\n')) console.log(`    | ${line}`)
} catch (error) {
  if (!(error instanceof StepFailed)) throw error
  process.exitCode = 1
}

/** Gives a host a profile of another one, whose server certificate gets the address on the wire. */
async function giveProfile(host: LabHost, other: LabHost): Promise<void> {
  await other.run('rm', `${TLS}/server.crt`, `${TLS}/server.key`)
  await other.run('vmhostd', 'setup', '--san', other.address)
  await other.run('systemctl', 'restart', 'vmhostd')
  await host.run('mkdir', '--parents', FOLDER)
  for (const file of ['ca.crt', 'controller.crt', 'controller.key'])
    copyFileSync(`${other.root}${TLS}/${file}`, `${host.root}${FOLDER}/${file}`)
  const profile = [
    `url = "https://${other.address}:9000"`,
    'ca = "ca.crt"',
    'cert = "controller.crt"',
    'key = "controller.key"',
  ]
  writeFileSync(`${host.root}${FOLDER}/host-2.toml`, `${profile.join('\n')}\n`)
}
