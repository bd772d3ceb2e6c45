import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatTapMark, parseTapMark, queueDevice, tapOfQueue } from './tap-names.ts'
import type { VmId, DeviceName } from '../../core/ids.ts'

test('a mark is read back as it was written', () => {
  const mark = { storeId: '6f1c2a0e-store', id: 'web-1' as VmId }
  assert.equal(formatTapMark(mark), 'vmhostd:6f1c2a0e-store:web-1')
  assert.deepEqual(parseTapMark(formatTapMark(mark)), mark)
})

test('any other alias is not a mark', () => {
  for (const alias of [
    '',
    'uplink',
    'vmhostd',
    'vmhostd:s',
    'vmhostd::web-1',
    'vmhostd:s:',
    'vmhostd:s:Web',
    'vmhostd:s:a:b',
    'x vmhostd:s:a',
  ]) {
    assert.equal(parseTapMark(alias), undefined, alias)
  }
})

test('a queue device is named after its tap, and the name leads back to the tap', () => {
  assert.equal(queueDevice('vmt100001' as DeviceName), 'vmq100001')
  assert.equal(tapOfQueue('vmq100001'), 'vmt100001')
})

test('no other name is that of a queue device', () => {
  for (const name of ['vmt100001', 'vmq', 'vmq0', 'vmqx', 'vmq1x', 'eth0', 'xvmq1'])
    assert.equal(tapOfQueue(name), undefined, name)
})
