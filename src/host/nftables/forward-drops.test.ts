import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endsInRefusal, forwardingTablesIn } from './forward-drops.ts'

const base = (chain: object): object => ({ chain: { type: 'filter', hook: 'forward', prio: 0, ...chain } })

const json = (...objects: readonly object[]): string =>
  JSON.stringify({ nftables: [{ metainfo: { json_schema_version: 1 } }, ...objects] })

test('each table with chains that routed packets pass is found once, with these chains', () => {
  const chains = [
    base({ family: 'ip', table: 'filter', name: 'FORWARD', policy: 'drop' }),
    base({ family: 'ip', table: 'filter', name: 'other', policy: 'accept' }),
    base({ family: 'inet', table: 'mine', name: 'forward', policy: 'accept' }),
    base({ family: 'ip', table: 'input', name: 'INPUT', hook: 'input', policy: 'drop' }),
    base({ family: 'bridge', table: 'filter', name: 'FORWARD', policy: 'drop' }),
    base({ family: 'inet', table: 'vmhostd', name: 'forward', policy: 'accept' }),
    { chain: { family: 'ip', table: 'open', name: 'plain' } },
  ]
  const found = forwardingTablesIn(json(...chains)).map(({ family, table, chains: inTable }) => [
    family,
    table,
    inTable.map(({ name, policy }) => [name, policy]),
  ])
  assert.deepEqual(found, [
    [
      'ip',
      'filter',
      [
        ['FORWARD', 'drop'],
        ['other', 'accept'],
      ],
    ],
    ['inet', 'mine', [['forward', 'accept']]],
  ])
})

test('a chain refuses all packets if its last rule does, whatever its policy says', () => {
  const table = (last: string): string => `table inet firewall {
\tchain other {
\t\tdrop
\t}

\tchain forward {
\t\ttype filter hook forward priority filter + 10; policy accept;
\t\tct state established,related accept
\t\t${last}
\t}
}
`
  for (const last of [
    'drop',
    'reject',
    'reject with icmpx admin-prohibited',
    'counter packets 5 bytes 420 drop comment "the rest"',
  ])
    assert.ok(endsInRefusal(table(last), 'forward'), last)
  for (const last of ['ct state invalid drop', 'accept', 'iifname "eth1" reject', 'jump other'])
    assert.ok(!endsInRefusal(table(last), 'forward'), last)
  assert.ok(!endsInRefusal(table('drop'), 'output'))
})
