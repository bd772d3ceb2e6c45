import assert from 'node:assert/strict'
import { test } from 'node:test'
import { queueDevice, tapOfQueue } from './queue-device.ts'
import type { DeviceName } from '../../core/ids.ts'

test('a queue device is named after its tap, and the name leads back to the tap', () => {
  assert.equal(queueDevice('vmt100001' as DeviceName), 'vmq100001')
  assert.equal(tapOfQueue('vmq100001'), 'vmt100001')
})

test('no other name is that of a queue device', () => {
  for (const name of ['vmt100001', 'vmq', 'vmq0', 'vmqx', 'vmq1x', 'eth0', 'xvmq1'])
    assert.equal(tapOfQueue(name), undefined, name)
})
