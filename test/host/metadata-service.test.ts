/** The metadata service of Firecracker: the content of a VM's seed, after a boot and after a wake. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bareRequest, firstEcho, udpEcho } from '../../lab/inside/bare.ts'
import { configure } from '../../lab/inside/configure.ts'
import { mutate, remove, settled } from '../../lab/inside/controller.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, awake, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { limits } from '../../src/config/limits.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { skipWithoutFirecracker } from './with-firecracker.ts'

const KEY =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFfJH2NcGJz6nCJlF3Qp3J0Vg0tqk8r4X2n0pQmWv1aA user@example.org'
/** As long as user data can be, and nearly each byte is two in JSON. */
const USER_DATA = `#cloud-config\n# ${'"'.repeat(limits.userDataBytesMax - 16)}`
const one = sleeper('metadata', 30)

sharedHost({
  make: () => configure('monitor', { metadata_service: true }),
  remove: () => configure('monitor', { metadata_service: undefined }),
})

type Served = {
  readonly latest: {
    readonly 'meta-data': {
      readonly 'local-hostname': string
      readonly 'public-keys': Readonly<Record<string, { readonly 'openssh-key': string }>>
    }
    readonly 'user-data': string
    readonly 'network-config': string
  }
}

/** Asks Firecracker's own API. */
const ask = async (target: string): Promise<unknown> =>
  JSON.parse(
    await sh(
      'curl',
      '--silent',
      '--unix-socket',
      `/run/vmhostd/vm/${one.id}/api.sock`,
      `http://localhost${target}`,
    ),
  )

test(
  'a guest finds its seed at the metadata service, also after a wake',
  { skip: skipWithoutBareGuest === false ? skipWithoutFirecracker : skipWithoutBareGuest },
  async () => {
    const request = bareRequest(one, { monitor: 'firecracker' })
    await mutate('PUT', `/v1/vms/${one.id}`, { ...request, ssh_authorized_keys: [KEY], user_data: USER_DATA })
    await settled(one.id, 'running')
    await firstEcho(one.ipv4)
    const { latest } = (await ask('/mmds')) as Served
    assert.equal(latest['meta-data']['local-hostname'], one.id)
    assert.equal(latest['meta-data']['public-keys']['0']?.['openssh-key'], KEY)
    assert.equal(latest['user-data'], USER_DATA)
    assert.match(latest['network-config'], new RegExp(one.ipv4))
    const { 'mmds-config': service } = (await ask('/vm/config')) as { 'mmds-config': unknown }
    assert.deepEqual(service, {
      version: 'V2',
      network_interfaces: ['net'],
      ipv4_address: '169.254.169.254',
      imds_compat: false,
    })

    await sleepAfter(one.id, 1)
    await asleep(one.id)
    await udpEcho(one.ipv4)
    await awake(one.id)
    assert.deepEqual(await ask('/mmds'), { latest })
    await remove(one.id)
  },
)
