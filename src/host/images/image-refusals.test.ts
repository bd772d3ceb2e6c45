import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { ImageRefusals } from './image-refusals.ts'
import type { Sha256 } from '../../core/ids.ts'

const bound = { bytesMax: 1, excess: 'image_too_large' } as const
const url = 'https://images.example.org/root'
const digest = (number: number): Sha256 => number.toString(16).padStart(64, '0') as Sha256

test('a bounded number of images is remembered as refused, and those are the newest', async () => {
  const refusals = new ImageRefusals(tmpdir(), 0, () => 0)
  const last = 2 * limits.imagesRefusedMax
  for (let number = 1; number <= last; number++) {
    const fault = new HostFault('image_too_large', 'receiving it')
    refusals.note(fault, { sha256: digest(number), url, bound, roomBytes: 0 })
  }
  const isRefused = (number: number): Promise<boolean> =>
    refusals.check(digest(number), url, bound).then(
      () => false,
      () => true,
    )
  const oldest = last - limits.imagesRefusedMax + 1
  assert.deepEqual(await Promise.all([oldest - 1, oldest, last].map(isRefused)), [false, true, true])
})
