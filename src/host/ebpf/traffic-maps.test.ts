import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import type { UserId } from '../../core/ids.ts'
import { decodeEvent, decodeGuest, encodeGuest, LAYOUT } from './traffic-maps.ts'

const source = readFileSync(new URL('../../../bpf/traffic.bpf.c', import.meta.url), 'utf8')

/** Returns a number that the program is compiled with. */
const defined = (name: string): number =>
  Number(new RegExp(`^#define ${name} (\\d+)$`, 'm').exec(source)?.[1] ?? assert.fail(`no ${name}`))

test('the sizes of pinned maps are those of their layout', () => {
  // The kernel refuses a program whose map sizes differ from the pinned maps. Choose a new layout with each change.
  assert.deepEqual(
    [LAYOUT, limits.trafficEventsBytes, limits.ignoredSourcesMax, limits.ignoredPortsMax],
    ['v1', 4 * 1024 * 1024, 1024, 64],
  )
})

test('the program has room for all that may be configured', () => {
  assert.equal(defined('IGNORED_SOURCES_MAX'), limits.ignoredSourcesMax)
  assert.equal(defined('IGNORED_PORTS_MAX'), limits.ignoredPortsMax)
})

test('what is written about a guest is read again, up to the last user id', () => {
  for (const frames of ['flowing', 'held'] as const) {
    const guest = { userId: 4_294_967_293 as UserId, frames }
    assert.deepEqual(decodeGuest(encodeGuest(guest)), guest)
  }
})

test('only the frame of a record is decoded, not the space reserved behind it', () => {
  const record = Buffer.alloc(32 + 256, 0xee)
  for (const [place, value] of [7, 3, 5, 0, 4, 1400, 1, 0].entries()) record.writeUInt32LE(value, 4 * place)
  assert.deepEqual(decodeEvent(record), {
    userId: 7,
    ifindex: 3,
    atNs: 5n,
    gsoSize: 1400,
    counts: true,
    frame: Buffer.from([0xee, 0xee, 0xee, 0xee]),
  })
})
