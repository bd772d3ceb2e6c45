import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countCpus, parseMeminfo } from './linux-figures.ts'

const MEMINFO = `MemTotal:        8131120 kB
MemFree:          203412 kB
MemAvailable:    5012345 kB
Buffers:           11111 kB
`

test('memory is read in whole MiB, never more than there is', () => {
  assert.deepEqual(parseMeminfo(MEMINFO), { totalMib: 7940, availableMib: 4894 })
})

test('memory is unknown if a line is missing or not as the kernel writes it', () => {
  assert.equal(parseMeminfo(''), undefined)
  assert.equal(parseMeminfo(MEMINFO.replace('MemAvailable', 'Other')), undefined)
  assert.equal(parseMeminfo(MEMINFO.replace('8131120 kB', '-1 kB')), undefined)
})

test('a CPU list counts ranges and single CPUs', () => {
  assert.equal(countCpus('0\n'), 1)
  assert.equal(countCpus('0-3\n'), 4)
  assert.equal(countCpus('0-1,3,8-15\n'), 11)
})

test('what is not a CPU list counts nothing', () => {
  for (const text of ['', '\n', '0-', '3-1', '0,,1', 'all']) assert.equal(countCpus(text), undefined, text)
})
