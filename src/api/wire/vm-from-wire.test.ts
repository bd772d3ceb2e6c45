import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exampleCreateVm } from './examples.ts'
import {
  bootFromWire,
  createFromWire,
  networkChangeFromWire,
  networkFromWire,
  rebuildFromWire,
  seedFromWire,
} from './vm-from-wire.ts'
import type { CreateVmWire } from './requests.ts'

const example = exampleCreateVm as CreateVmWire
const { sha256 } = example.image.rootfs
const odd = { url: 'https://me:secret@images.example.net/root.img', sha256 }

test('a create request keeps its initrd and its kernel arguments', () => {
  const initrd = { url: 'https://images.example.net/initrd', sha256: 'c'.repeat(64) }
  const image = { ...example.image, initrd, kernel_arguments: 'quiet' }
  const created = createFromWire({ ...example, image })
  assert.ok(created.ok)
  assert.equal(created.value.image.kernelArguments, 'quiet')
  assert.deepEqual(
    created.value.image.images.map(({ role, sha256: digest }) => [role, digest]),
    [
      ['rootfs', sha256],
      ['kernel', example.image.kernel.sha256],
      ['initrd', initrd.sha256],
    ],
  )
})

test('a URL with a password is refused wherever a request names an image', () => {
  const { image } = example
  for (const [pointer, result] of [
    ['/image/rootfs/url', createFromWire({ ...example, image: { ...image, rootfs: odd } })],
    ['/image/initrd/url', createFromWire({ ...example, image: { ...image, initrd: odd } })],
    ['/rootfs/url', rebuildFromWire({ rootfs: odd })],
    ['/kernel/url', bootFromWire({ kernel: odd })],
    ['/initrd/url', bootFromWire({ initrd: odd })],
  ] as const)
    assert.deepEqual(!result.ok && result.error.map((complaint) => complaint.pointer), [pointer])
})

test('text that has no UTF-8 form is refused as user data and as a key', () => {
  const half = '\ud800'
  const body = { user_data: half, ssh_authorized_keys: [half] }
  for (const result of [seedFromWire(body), createFromWire({ ...example, ...body })])
    assert.deepEqual(!result.ok && result.error.map(({ pointer }) => pointer), [
      '/user_data',
      '/ssh_authorized_keys/0',
    ])
})

test('a change of a network takes back name servers and a firewall, and an empty list of rules is none of that', () => {
  for (const [body, change] of [
    [{ name_servers: null }, { nameServers: null }],
    [{ firewall: null }, { firewall: null }],
    [{ firewall: {} }, { firewall: null }],
    [{ firewall: { inbound: [] } }, { firewall: { inbound: [] } }],
    [{}, {}],
  ] as const)
    assert.deepEqual(networkChangeFromWire(structuredClone(body) as object, []), change)
})

test('ports reach from 1 to 65535', () => {
  const complaints: Parameters<typeof networkFromWire>[2] = []
  const ports = ['1', '65535', '1-65535', '65536', '443-442', '1-65536']
  networkFromWire({ firewall: { inbound: [{ protocol: 'tcp', ports }] } }, '', complaints)
  assert.deepEqual(
    complaints.map(({ pointer }) => pointer),
    [3, 4, 5].map((index) => `/firewall/inbound/0/ports/${index}`),
  )
})
