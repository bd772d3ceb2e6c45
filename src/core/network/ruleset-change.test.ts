import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileChange } from './ruleset-change.ts'
import type { DeviceName, MacAddress } from '../ids.ts'
import type { GuestRule } from '../world/network-state.ts'

const guest: GuestRule = {
  device: 'vmt1' as DeviceName,
  macAddress: '02:76:00:00:00:01' as MacAddress,
  ipv4Address: '192.0.2.1',
}
const ruled: GuestRule = { ...guest, inbound: [{ protocol: 'udp' }] }
const change = (gone: readonly GuestRule[], come: readonly GuestRule[]): string[] =>
  compileChange({ gone, come }).trimEnd().split('\n')

const added = [
  'add element inet vmhostd guest_mac { "vmt1" . 02:76:00:00:00:01 }',
  'add element inet vmhostd guest_ipv4 { "vmt1" . 192.0.2.1 }',
]
const chainAdded = [
  'table inet vmhostd {',
  '  chain to_vmt1 {',
  '    meta l4proto udp accept',
  '    goto refused',
  '  }',
  '}',
  'add element inet vmhostd inbound { "vmt1" : goto to_vmt1 }',
]
const chainDeleted = [
  'delete element inet vmhostd inbound { "vmt1" : goto to_vmt1 }',
  'delete chain inet vmhostd to_vmt1',
]

test('a guest that comes is put into the sets that it belongs in, and into no other', () => {
  assert.deepEqual(change([], [guest]), added)
})

test('a guest that comes with rules of its own gets its chain, then its place in the map', () => {
  assert.deepEqual(change([], [ruled]), [...added, ...chainAdded])
  assert.deepEqual(change([], [{ ...guest, inbound: [] }]), [
    ...added,
    'add element inet vmhostd inbound { "vmt1" : goto refused }',
  ])
})

test('a guest that goes loses all of its elements, its counters too', () => {
  assert.deepEqual(change([ruled], []), [
    ...added.map((line) => line.replace('add', 'delete')),
    ...chainDeleted,
    ...['spoofed_drops', 'inbound_drops', 'connections_out', 'connections_in'].flatMap((set) => [
      `add element inet vmhostd ${set} { "vmt1" }`,
      `delete element inet vmhostd ${set} { "vmt1" }`,
    ]),
  ])
})

test('for a changed guest only the changes are named', () => {
  assert.deepEqual(change([ruled], [{ ...ruled, ipv4Address: '192.0.2.9' }]), [
    'delete element inet vmhostd guest_ipv4 { "vmt1" . 192.0.2.1 }',
    'add element inet vmhostd guest_ipv4 { "vmt1" . 192.0.2.9 }',
  ])
  assert.deepEqual(change([guest], [ruled]), chainAdded)
  assert.deepEqual(change([ruled], [guest]), chainDeleted)
})

test('new rules replace the chain', () => {
  const open: GuestRule = { ...guest, inbound: [{ protocol: 'any' }] }
  assert.deepEqual(change([open], [ruled]), [...chainDeleted, ...chainAdded])
})

test('the chain of a guest is deleted before those that it leads to', () => {
  const ports = [
    { first: 22, last: 22 },
    { first: 80, last: 80 },
  ]
  const sources = ['192.0.2.0/24', '198.51.100.0/24']
  const lines = change([{ ...guest, inbound: [{ protocol: 'tcp', ports, sources }] }], [])
  assert.deepEqual(
    lines.filter((line) => line.startsWith('delete chain')),
    ['delete chain inet vmhostd to_vmt1', 'delete chain inet vmhostd to_vmt1_1'],
  )
})
