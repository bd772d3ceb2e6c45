import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tcBatch } from './tc-batch.ts'
import type { Bandwidth } from '../../core/desired.ts'
import type { DeviceName } from '../../core/ids.ts'

const device = 'vmt100001' as DeviceName
const batch = (wanted: Bandwidth, now: Bandwidth): readonly string[] => tcBatch(device, wanted, now)
const redirection =
  'filter replace dev vmt100001 ingress pref 30316 protocol all handle 1 bpf bytecode "1,6 0 0 4294967295," action mirred egress redirect dev vmq100001'

test('limits that are as wanted need no commands', () => {
  assert.deepEqual(batch({}, {}), [])
  const both = { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 }
  assert.deepEqual(batch(both, both), [])
})

test('a guest receives through a bucket on its tap, of 10 ms at the rate and a queue of 50 ms', () => {
  assert.deepEqual(batch({ receiveMbitPerSecond: 100 }, {}), [
    'qdisc replace dev vmt100001 root handle 766d: tbf rate 100mbit burst 125000b limit 750000b',
  ])
})

test('a low rate still lets a short answer through at once, and a high one queues only what it must', () => {
  assert.deepEqual(batch({ receiveMbitPerSecond: 1 }, {}), [
    'qdisc replace dev vmt100001 root handle 766d: tbf rate 1mbit burst 32768b limit 39018b',
  ])
  assert.deepEqual(batch({ receiveMbitPerSecond: 100_000 }, {}), [
    'qdisc replace dev vmt100001 root handle 766d: tbf rate 100000mbit burst 125000000b limit 129194304b',
  ])
})

test('packets that a guest transmits go through a bucket on its queue device, which is made first', () => {
  const commands = [
    'qdisc replace dev vmq100001 root handle 766d: tbf rate 10mbit burst 32768b limit 95268b',
    'qdisc replace dev vmt100001 clsact',
    redirection,
  ]
  assert.deepEqual(batch({ transmitMbitPerSecond: 10 }, {}), commands)
  assert.deepEqual(batch({ transmitMbitPerSecond: 10 }, { transmitMbitPerSecond: 0 }), commands)
})

test('a change of a rate affects only its bucket', () => {
  const was = { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 }
  assert.deepEqual(batch({ ...was, transmitMbitPerSecond: 20 }, was), [
    'qdisc replace dev vmq100001 root handle 766d: tbf rate 20mbit burst 32768b limit 157768b',
  ])
})

test('removed limits leave the device as it was, and keep filters of others', () => {
  const was = { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 }
  assert.deepEqual(batch({}, was), [
    'qdisc del dev vmt100001 root',
    'filter del dev vmt100001 ingress pref 30316',
  ])
  assert.deepEqual(batch({}, { transmitMbitPerSecond: 0 }), ['filter del dev vmt100001 ingress pref 30316'])
})
