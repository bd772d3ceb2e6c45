import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { Network } from '../desired.ts'
import type { VmId } from '../ids.ts'
import { renderSeed, seedOf } from './seed.ts'
import { recordOf } from '../../../test/record.ts'
import type { SeedContent } from './seed.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const daemonSshKey = 'ssh-ed25519 DDDD vmhostd@host-1'
const bare: SeedContent = { id: 'web-1' as VmId, instanceId: 'i-1', sshAuthorizedKeys: [], daemonSshKey }
const keys = ['ssh-ed25519 AAAA one@example.org', 'ssh-ed25519 BBBB "two"']
const network = {
  macAddress: '52:54:00:12:34:56',
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
} as Network

const fileOf = (content: SeedContent, name: string): string | undefined =>
  renderSeed(content, sha256).files.find((file) => file.name === name)?.content

test("the guest learns its name, that it is still the same machine, and the daemon's key", () => {
  assert.equal(
    fileOf(bare, 'meta-data'),
    `instance-id: "i-1"\nlocal-hostname: "web-1"\npublic-keys:\n  - "${daemonSshKey}"\n`,
  )
})

test('another instance has another id, and the first has that of before there were numbers', () => {
  const record = recordOf()
  const idOf = (desired: typeof record.desired): string =>
    seedOf({ ...record, desired }, { sshAuthorizedKeys: [] }, { daemonSshKey, sha256 }).guestMetadata.latest[
      'meta-data'
    ]['instance-id']
  assert.equal(idOf(record.desired), `${record.id}-1000`)
  assert.equal(idOf({ ...record.desired, instance: 2 }), `${record.id}-1000-2`)
})

test('the vendor data lets keys in to root, whatever the user data, which wins over it', () => {
  for (const content of [bare, { ...bare, userData: '#cloud-config\ndisable_root: true\n' }])
    assert.equal(fileOf(content, 'vendor-data'), '#cloud-config\ndisable_root: false\n')
})

test("the user's keys stand in the meta-data, and in the user data if the VM has none of its own", () => {
  const content = { ...bare, sshAuthorizedKeys: keys }
  const list = '  - "ssh-ed25519 AAAA one@example.org"\n  - "ssh-ed25519 BBBB \\"two\\""\n'
  assert.equal(
    fileOf(content, 'meta-data'),
    `instance-id: "i-1"\nlocal-hostname: "web-1"\npublic-keys:\n${list}  - "${daemonSshKey}"\n`,
  )
  assert.equal(fileOf(content, 'user-data'), `#cloud-config\nssh_authorized_keys:\n${list}`)
})

test('a metadata service has the same by the paths of EC2', () => {
  const content = { ...bare, network, sshAuthorizedKeys: keys, userData: '#!/bin/sh\n' }
  const { guestMetadata, files } = renderSeed(content, sha256)
  const { 'meta-data': metaData, ...rest } = guestMetadata.latest
  assert.deepEqual(metaData, {
    'instance-id': 'i-1',
    'local-hostname': 'web-1',
    'public-keys': Object.fromEntries(
      [...keys, daemonSshKey].map((key, index) => [String(index), { 'openssh-key': key }]),
    ),
  })
  assert.deepEqual(
    Object.entries(rest).map(([name, text]) => ({ name, content: text })),
    files.slice(1),
  )
})

test('user data of the VM is passed on as it is', () => {
  const userData = '#!/bin/sh\necho "hi"'
  assert.equal(fileOf({ ...bare, sshAuthorizedKeys: keys, userData }, 'user-data'), userData)
  assert.equal(fileOf({ ...bare, userData: '' }, 'user-data'), '')
})

test('without user data and keys the guest learns that there is nothing to do', () => {
  assert.equal(fileOf(bare, 'user-data'), '#cloud-config\n')
})

test('addresses are static on a routed link, the device is found by its MAC address', () => {
  assert.equal(
    fileOf({ ...bare, network }, 'network-config'),
    `version: 2
ethernets:
  guest:
    match:
      macaddress: "52:54:00:12:34:56"
    dhcp4: false
    dhcp6: false
    accept-ra: false
    addresses:
      - "192.0.2.10/32"
      - "2001:db8::10/128"
    routes:
      - to: "0.0.0.0/0"
        via: "169.254.0.1"
        on-link: true
      - to: "::/0"
        via: "fe80::1"
        on-link: true
`,
  )
})

test('name servers stand with the device; a VM without any has no word of them', () => {
  const nameServers = ['192.0.2.53', '2001:db8::53']
  const config = fileOf({ ...bare, network: { ...network, nameServers } }, 'network-config') ?? ''
  assert.match(
    config,
    /\n    nameservers:\n      addresses:\n        - "192\.0\.2\.53"\n        - "2001:db8::53"\n$/,
  )
  assert.doesNotMatch(fileOf({ ...bare, network }, 'network-config') ?? '', /nameservers/)
})

test('a guest of one family gets routes of that family only', () => {
  const { ipv4Address: _ipv4Address, ...ipv6Only } = network
  const config = fileOf({ ...bare, network: ipv6Only }, 'network-config') ?? ''
  assert.match(config, /"fe80::1"/)
  assert.doesNotMatch(config, /169\.254/)
})

test('a device without addresses is configured to have none', () => {
  const config = fileOf({ ...bare, network: { macAddress: network.macAddress } }, 'network-config') ?? ''
  assert.doesNotMatch(config, /addresses|routes/)
})

test('a VM without network has no network configuration', () => {
  assert.equal(fileOf(bare, 'network-config'), undefined)
})

test('the digest differs for any two seeds and is equal for equal ones', () => {
  const contents: SeedContent[] = [
    bare,
    { ...bare, instanceId: 'i-2' },
    { ...bare, daemonSshKey: 'ssh-ed25519 EEEE vmhostd@host-1' },
    { ...bare, userData: '' },
    { ...bare, userData: 'a' },
    { ...bare, sshAuthorizedKeys: keys },
    { ...bare, network },
  ]
  const digests = contents.map((content) => renderSeed(content, sha256).digest)
  assert.equal(new Set(digests).size, contents.length)
  assert.deepEqual(
    contents.map((content) => renderSeed({ ...content }, sha256).digest),
    digests,
  )
})
