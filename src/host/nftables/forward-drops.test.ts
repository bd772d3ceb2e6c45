import assert from 'node:assert/strict'
import { test } from 'node:test'
import { droppingTablesIn } from './forward-drops.ts'

const base = (chain: object): object => ({ chain: { type: 'filter', hook: 'forward', prio: 0, ...chain } })

const json = (...objects: readonly object[]): string =>
  JSON.stringify({ nftables: [{ metainfo: { json_schema_version: 1 } }, ...objects] })

test('a table with a chain that drops routed packets by its policy is found once', () => {
  const chains = [
    base({ family: 'ip', table: 'filter', name: 'FORWARD', policy: 'drop' }),
    base({ family: 'ip', table: 'filter', name: 'other', policy: 'drop' }),
    base({ family: 'inet', table: 'mine', name: 'forward', policy: 'drop' }),
  ]
  assert.deepEqual(droppingTablesIn(json(...chains)), [
    { family: 'ip', table: 'filter' },
    { family: 'inet', table: 'mine' },
  ])
})

test('chains that accept, that other packets pass, or that only others jump to are left out', () => {
  const chains = [
    base({ family: 'ip', table: 'open', name: 'FORWARD', policy: 'accept' }),
    base({ family: 'ip', table: 'input', name: 'INPUT', hook: 'input', policy: 'drop' }),
    base({ family: 'bridge', table: 'filter', name: 'FORWARD', policy: 'drop' }),
    { chain: { family: 'ip', table: 'open', name: 'plain' } },
  ]
  assert.deepEqual(droppingTablesIn(json(...chains)), [])
})
