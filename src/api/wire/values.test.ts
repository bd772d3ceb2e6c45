import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkerFor } from '../../lib/schema-check.ts'
import { shownText, timeSchema } from './values.ts'

test('a time that Date cannot read is malformed', () => {
  const check = checkerFor(timeSchema, new Map())
  for (const time of ['2030-01-01T12:00:00Z', '2030-01-01T12:00:00.123456+02:00', '2030-01-01t12:00:00z'])
    assert.deepEqual(check(time), [], time)
  for (const time of [
    '2030-12-31T23:59:60Z',
    '2030-01-01T12:00:00Z[Europe/Paris]',
    '2030-01-01',
    '12:00:00Z',
  ])
    assert.deepEqual(
      check(time).map(({ code }) => code),
      ['malformed'],
      time,
    )
})

test('a shown text has no path of the host, wherever a line break or an invisible character stands', () => {
  for (const text of [
    'nft failed:\n/var/lib/vmhostd/x',
    'x\u200b/var/lib/vmhostd/x',
    'in /var/li\u200bb/vmhostd/x',
  ])
    assert.match(shownText(text), /^[a-z: ]*\[path\]$/, text)
})
