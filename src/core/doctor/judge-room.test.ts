import assert from 'node:assert/strict'
import { test } from 'node:test'
import { badOf, idsOf, is, poolWith, records } from '../../../test/well-host.ts'
import { given } from '../../lib/given.ts'
import type { HostFacts } from './host-facts.ts'

const unread = [
  ['damaged', /backup/],
  ['locked', /restart/],
  ['forbidden', /root/],
  [undefined, /disk/],
] as const

for (const [fault, advice] of unread)
  test(`records that cannot be read (${fault ?? 'for another reason'}): a backup only for damaged ones`, () => {
    const [found] = badOf({ records: { known: false, because: 'x', ...given({ fault }) } })
    const remedy = found?.remedy ?? ''
    assert.match(remedy, advice)
    assert.equal(/backup/.test(remedy), fault === 'damaged')
  })

test('for damaged records the pool is named too, and for newer ones the copy that this build can read', () => {
  const remedyOf = (look: HostFacts['records']): string => badOf({ records: look })[0]?.remedy ?? ''
  assert.match(
    remedyOf({ known: false, because: 'x', fault: 'damaged' }),
    /without one recover the VMs from the pool/,
  )
  const newer = { ...records, schemaVersion: 10 }
  assert.match(remedyOf(is({ ...newer, copy: '/copies/schema-9.db' })), /restore \/copies\/schema-9\.db,/)
  assert.match(remedyOf(is(newer)), /put back a backup from before the upgrade/)
})

const badPools = [
  ['full', /^make room in \/pool$/],
  ['read-only', /\/pool read-write/],
  ['unmarked', /mount .*\/pool;.*--replace-pool/],
  [undefined, /disk of \/pool/],
] as const

for (const [fault, advice] of badPools)
  test(`a pool that cannot be read (${fault ?? 'for another reason'}): it is replaced only if it has no marker`, () => {
    const [found] = badOf({ pool: poolWith(fault) })
    const remedy = found?.remedy ?? ''
    assert.match(remedy, advice)
    assert.equal(/--replace-pool/.test(remedy), fault === 'unmarked')
  })

test('disks without a record are named, up to a few', () => {
  const foundOf = (count: number, isMore: boolean): string | undefined =>
    badOf({ unrecorded: is({ ids: idsOf('web', count), isMore }) })[0]?.found
  assert.match(foundOf(2, false) ?? '', /: web-1, web-2$/)
  assert.match(foundOf(2, true) ?? '', /: web-1, web-2, and others$/)
  assert.match(foundOf(9, false) ?? '', /: web-1, .*web-5, and others$/)
})
