import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { crc32AfterZeros } from './crc32-zeros.ts'

test('zeros after data count as if they had been read', () => {
  for (const data of ['', '\0', 'a guest', 'x'.repeat(1000)]) {
    for (const count of [0, 1, 2, 3, 7, 8, 255, 4096, 65_537, 1_000_000]) {
      const whole = Buffer.concat([Buffer.from(data), Buffer.alloc(count)])
      assert.equal(crc32AfterZeros(crc32(data), count), crc32(whole), `${data.length} bytes, ${count} zeros`)
    }
  }
})

test('zeros may be counted in parts, also past 2^32', () => {
  const crc = crc32('a guest')
  const parts = crc32AfterZeros(crc32AfterZeros(crc, 2 ** 40), 3)
  assert.equal(parts, crc32AfterZeros(crc, 2 ** 40 + 3))
})
