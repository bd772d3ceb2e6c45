import assert from 'node:assert/strict'
import { test } from 'node:test'
import { knownTscKhz } from './tsc-frequency.ts'

const cpuinfo = (flags: string): string =>
  `processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\ncpu MHz\t\t: 2596.130\nflags\t\t: fpu tsc ${flags} sse\nbugs\t\t:\n\nprocessor\t: 1\n`

test('on a virtual host the frequency is known', () => {
  assert.equal(knownTscKhz(cpuinfo('constant_tsc tsc_known_freq')), 2596130)
})

test('a frequency that is measured, or that varies, is not taken for that of the counter', () => {
  for (const flags of ['constant_tsc', 'tsc_known_freq', 'constant_tsc tsc_known_freq aperfmperf']) {
    assert.equal(knownTscKhz(cpuinfo(flags)), undefined)
  }
})

test('a processor of another kind has no such counter', () => {
  assert.equal(knownTscKhz('processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n'), undefined)
})
