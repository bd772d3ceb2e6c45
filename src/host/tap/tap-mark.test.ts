import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatTapMark, parseTapMark } from './tap-mark.ts'
import type { VmId } from '../../core/ids.ts'

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
