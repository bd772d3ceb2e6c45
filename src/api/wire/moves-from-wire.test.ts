import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manifest } from '../../../test/daemon/support/coordination-host.ts'
import { limits } from '../../config/limits.ts'
import { checkerFor } from '../../lib/schema-check.ts'
import { manifestToWire } from './manifest.ts'
import { heldPacketsSchema, movedConsoleSchema } from './moves.ts'
import { handOverToWire } from './moves-to-wire.ts'
import { handOverFromWire, manifestFromWire } from './moves-from-wire.ts'

test('a manifest is the same after its way over the wire', () => {
  const { network: manifestNetwork = assert.fail('no network'), ...vm } = manifest.vm.desired
  const { network: __, expiresAtMs: ___, ...bare } = manifest
  const formatted = { ...manifest, monitor: { ...manifest.monitor, format: '10.0.0' } }
  const network = { ...manifestNetwork, ipv6Address: '2001:db8::10', ipv6Prefix: '2001:db8:1::/64' }
  const routed = { ...manifest, network, vm: { ...manifest.vm, desired: { ...vm, network } } }
  const ended = { ...manifest, vm: { ...manifest.vm, ended: true as const } }
  const { lastTrafficAtMs: _traffic, keepAwakeUntilMs: _awake, ...silent } = manifest.vm
  const variants = [
    { ...bare, vm: { ...manifest.vm, desired: vm } },
    { ...manifest, vm: silent },
  ]
  for (const sent of [manifest, formatted, routed, ended, ...variants])
    assert.deepEqual(manifestFromWire(JSON.parse(JSON.stringify(manifestToWire(sent)))), sent)
})

test('a manifest with a network that no VM can have is not taken', () => {
  const { network = assert.fail('no network') } = manifest.vm.desired
  const desired = { ...manifest.vm.desired, network: { ...network, ipv4Address: '127.0.0.1' } }
  const wire = manifestToWire({ ...manifest, vm: { ...manifest.vm, desired } })
  assert.throws(() => manifestFromWire(wire), /network whose \/network\/ipv4_address/)
})

test('the format of saved memory is the same after its way over the wire', () => {
  const terms = {
    savedAtMs: 1_700_000_000_123,
    monitor: { ...manifest.monitor, format: '10.0.0' },
    compute: { cpuMillicores: 1000, memoryMib: 128 },
  }
  const sent = handOverToWire({ stage: 'handed_over', lastRound: 4, memory: { lengthBytes: 1, terms } })
  assert.deepEqual(handOverFromWire(JSON.parse(JSON.stringify(sent))).memory?.terms, terms)
})

test('a packet may be somewhat too old, and not so old that its arrival has no time', () => {
  const check = checkerFor(heldPacketsSchema, new Map())
  const aged = (age_ms: number) => ({
    packets: [{ number: 1, gso_size: 0, age_ms, counts: true, frame: '/////w==' }],
  })
  assert.deepEqual(check(aged(2 * limits.heldFrameAgeMs)), [])
  const [complaint] = check(aged(Number.MAX_SAFE_INTEGER))
  assert.deepEqual([complaint?.pointer, complaint?.code], ['/packets/0/age_ms', 'out_of_range'])
})

test('the end of a moved console leaves room for all later output', () => {
  const check = checkerFor(movedConsoleSchema, new Map())
  const endingAt = (end: number) => ({
    session: '0123456789abcdef',
    end,
    window: { columns: 80, rows: 24 },
    output: '',
  })
  assert.deepEqual(check(endingAt(limits.movedCountMax)), [])
  for (const end of [2 ** 53 + 2, 2 ** 60]) {
    const [complaint] = check(endingAt(end))
    assert.deepEqual([complaint?.pointer, complaint?.code], ['/end', 'out_of_range'])
  }
})
