import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCores, parseMib, parseSeconds, parseTimeoutMs } from './units.ts'

test('sizes are read in MiB, with or without a unit, and only if they are whole', () => {
  for (const [text, mib] of [
    ['512', 512],
    ['512M', 512],
    ['512MiB', 512],
    ['2g', 2048],
    ['1.5G', 1536],
    ['1T', 1024 * 1024],
    ['2048K', 2],
  ] as const) {
    assert.equal(parseMib(text, '--memory'), mib, text)
  }
  for (const text of ['', '1.5', '1K', '-1', '1e3', '2 G x', '9'.repeat(20)]) {
    assert.throws(() => parseMib(text, '--memory'), /--memory/, text)
  }
})

test('cores are read to the millicore', () => {
  for (const [text, millicores] of [
    ['1', 1000],
    ['0.1', 100],
    ['1.005', 1005],
    ['32', 32_000],
  ] as const) {
    assert.equal(parseCores(text, '--cpu'), millicores, text)
  }
  for (const text of ['', '.5', '1.', '1.0001', '1m', '-1'])
    assert.throws(() => parseCores(text, '--cpu'), /--cpu/, text)
})

test('times are read in seconds', () => {
  for (const [text, seconds] of [
    ['0', 0],
    ['90', 90],
    ['90s', 90],
    ['10m', 600],
    ['2h', 7200],
    ['1d', 86_400],
  ] as const) {
    assert.equal(parseSeconds(text, '--timeout'), seconds, text)
  }
  for (const text of ['', '1.5h', '1w', '-1', 'soon'])
    assert.throws(() => parseSeconds(text, '--timeout'), /--timeout/, text)
})

test('a wait may take as long as a timer can', () => {
  assert.equal(parseTimeoutMs('10m', '--timeout'), 600_000)
  assert.ok(parseTimeoutMs('24d', '--timeout') < 2 ** 31)
  assert.throws(() => parseTimeoutMs('577h', '--timeout'), /--timeout/)
})
