import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import { idleTimeoutMs, isFlapping } from './idle-timeout.ts'
import type { VmRecord } from '../vm/record.ts'

function sleeper(sleepAfterIdleSeconds: number, shortSleeps = 0): VmRecord {
  const record = recordOf()
  return {
    ...record,
    desired: { ...record.desired, compute: { ...record.desired.compute, sleepAfterIdleSeconds } },
    observed: { ...record.observed, shortSleeps },
  }
}

test('a timeout is as requested until the VM flaps, then doubles up to its cap', () => {
  const timeouts = [0, 3, 4, 5, 6, 100].map((short) => idleTimeoutMs(sleeper(60, short)))
  assert.deepEqual(timeouts, [60_000, 60_000, 120_000, 240_000, 480_000, limits.sleepBackoffMsMax])
})

test('a timeout that is longer than the cap is never shortened', () => {
  assert.equal(idleTimeoutMs(sleeper(3600, 100)), 3_600_000)
})

test('a VM without timeout, without network, or without an address, never sleeps', () => {
  assert.equal(idleTimeoutMs(sleeper(0)), undefined)
  const { network, ...desired } = sleeper(60).desired
  assert.equal(idleTimeoutMs({ ...sleeper(60), desired }), undefined)
  const { macAddress } = network ?? assert.fail()
  assert.equal(idleTimeoutMs({ ...sleeper(60), desired: { ...desired, network: { macAddress } } }), undefined)
  const ipv6 = { ...desired, network: { macAddress, ipv6Address: '2001:db8::10' } }
  assert.equal(idleTimeoutMs({ ...sleeper(60), desired: ipv6 }), 60_000)
})

test('a VM flaps from the first short sleep that lengthens its timeout', () => {
  assert.deepEqual(
    [limits.shortSleepsFree, limits.shortSleepsFree + 1].map((short) => isFlapping(sleeper(60, short))),
    [false, true],
  )
})
