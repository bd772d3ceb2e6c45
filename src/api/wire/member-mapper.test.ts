import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromWire, toWire } from './member-mapper.ts'

type Disk = {
  readonly sizeMib: number
  readonly iopsMax?: number
  readonly seenAtMs: number
  readonly path: string
}
type DiskWire = { size_mib: number; iops_max?: number; seen: string }

const time = (ms: number): string => new Date(ms).toISOString()

test('members are renamed, and rules rename, convert and leave out', () => {
  const map = toWire<Disk, DiskWire>()({ seenAtMs: ['seen', time], path: null })
  assert.deepEqual(map({ sizeMib: 1, iopsMax: 2, seenAtMs: 0, path: '/pool' }), {
    size_mib: 1,
    iops_max: 2,
    seen: '1970-01-01T00:00:00.000Z',
  })
})

test('an absent member stays absent, and its rule is not asked', () => {
  const map = toWire<
    { readonly sinceMs?: number; readonly count: number },
    { since?: string; count: number }
  >()({
    sinceMs: ['since', time],
  })
  assert.deepEqual(map({ count: 0 }), { count: 0 })
  // A value from outside the types, as of a database.
  assert.deepEqual(map({ count: 0, sinceMs: undefined } as unknown as { count: number }), { count: 0 })
})

test('a request is mapped to the domain in the same way', () => {
  const map = fromWire<
    { cpu_millicores: number; ipv4_address?: string },
    { cpuMillicores: number; ipv4Address?: string }
  >()({})
  assert.deepEqual(map({ cpu_millicores: 500, ipv4_address: '192.0.2.1' }), {
    cpuMillicores: 500,
    ipv4Address: '192.0.2.1',
  })
})

test('a member that fits nothing on the wire, and a wire member that gets nothing, do not compile', () => {
  // @ts-expect-error -- `path` has no rule, and the wire has no such member
  toWire<Disk, DiskWire>()({ seenAtMs: ['seen', time] })
  // @ts-expect-error -- a number does not fit a text
  toWire<{ readonly at: number }, { at: string }>()({})
  const incomplete = toWire<{ readonly sizeMib: number }, { size_mib: number; seen: string }>()({})
  // @ts-expect-error -- nothing is mapped to `seen`
  assert.ok(incomplete({ sizeMib: 1 }))
})
