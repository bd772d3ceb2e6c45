import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { judgeTable, recordTable, TableRecordFile } from './table-record.ts'
import type { GuestRule } from '../../core/world/network-state.ts'
import type { DeviceName, MacAddress } from '../../core/ids.ts'

const policy = {
  guestToGuest: false,
  inboundDefault: 'accept',
  hostServices: [],
  masquerade: [],
  connectionsMax: 1000,
} as const
const guest: GuestRule = {
  device: 'vmt1' as DeviceName,
  macAddress: '02:76:00:00:00:01' as MacAddress,
  ipv4Address: '192.0.2.10',
}
const found = {
  identity: new Map([
    ['table', '7/'],
    ['chain a', '1/'],
  ]),
  elements: new Set(['s 01 ']),
}
const record = recordTable(policy, [guest], found)

test('the order in which the parts of a table are found does not matter', () => {
  const turned = { identity: new Map([...found.identity].toReversed()), elements: found.elements }
  assert.equal(judgeTable(record, policy, turned), 'same')
})

test('a table is altered if any part of it is', () => {
  const identity = new Map([...found.identity, ['chain a', '2/']])
  assert.equal(judgeTable(record, policy, { ...found, identity }), 'altered')
  assert.equal(judgeTable(record, policy, { ...found, elements: new Set(['s 02 ']) }), 'altered')
})

test('an unaltered table counts as other if this daemon has another policy', () => {
  assert.equal(judgeTable(record, { ...policy, guestToGuest: true }, found), 'other')
})

test('a record is taken once, and only if it can be read', (t) => {
  const directory = mkdtempSync('/tmp/vmhostd-record-')
  t.after(() => rmSync(directory, { recursive: true }))
  const file = new TableRecordFile(`${directory}/firewall.json`)
  assert.equal(file.take(), undefined)
  file.leave(record)
  assert.deepEqual(file.take(), record)
  assert.equal(file.take(), undefined)
  writeFileSync(`${directory}/firewall.json`, '{"guests":[')
  assert.equal(file.take(), undefined)
  new TableRecordFile(`${directory}/nowhere/firewall.json`).leave(record)
})
