/** Effects that bandwidth limits must not have, and their remains. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec } from '../contract/taps-stage.ts'

const { device, vmId } = tapSpec
const queue = 'vmq100001'
const limited: TapSpec = { ...tapSpec, bandwidth: { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 } }

const ip = async (...args: string[]): Promise<string> => (await run(['ip', ...args])).stdout
const tc = async (...args: string[]): Promise<string> => (await run(['tc', ...args])).stdout

function tapsOf(t: TestContext): RoutedTaps {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  for (const name of [device, queue]) atEnd(t, () => run(['ip', 'link', 'del', name], { okCodes: [0, 1] }))
  atEnd(t, () => taps.close())
  return taps
}

test('a tap without limits has no device of ours before it', { skip }, async (t) => {
  const taps = tapsOf(t)
  await taps.ensure(tapSpec)
  assert.doesNotMatch(await tc('qdisc', 'show', 'dev', device), /tbf|clsact/)
  assert.equal(await ip('link', 'show', 'type', 'ifb'), '')
})

test('filters of others on a tap outlive limits that come and go', { skip }, async (t) => {
  const taps = tapsOf(t)
  await taps.ensure(tapSpec)
  await tc('qdisc', 'add', 'dev', device, 'clsact')
  const everything = ['bpf', 'bytecode', '1,6 0 0 0,']
  for (const hook of ['ingress', 'egress']) {
    await tc('filter', 'add', 'dev', device, hook, 'pref', '7', 'protocol', 'all', ...everything)
    await tc('filter', 'add', 'dev', device, hook, 'protocol', 'all', ...everything)
  }
  const filters = async (): Promise<string> =>
    (await tc('filter', 'show', 'dev', device, 'ingress')) +
    (await tc('filter', 'show', 'dev', device, 'egress'))
  const before = await filters()
  await taps.ensure(limited)
  assert.notEqual(await filters(), before)
  await taps.ensure(tapSpec)
  assert.equal(await filters(), before)
})

test('a qdisc of somebody else on a tap without a limit is left alone', { skip }, async (t) => {
  const taps = tapsOf(t)
  await taps.ensure(tapSpec)
  await tc(
    'qdisc',
    'add',
    'dev',
    device,
    'root',
    'handle',
    '1:',
    'tbf',
    'rate',
    '3mbit',
    'burst',
    '9k',
    'limit',
    '9k',
  )
  const state = await taps.inspect(device, vmId)
  assert.deepEqual(state.kind === 'present' && state.facts.bandwidth, {})
  await taps.ensure(tapSpec)
  assert.match(await tc('qdisc', 'show', 'dev', device), /qdisc tbf 1: .*rate 3Mbit/)
  await taps.ensure(limited)
  assert.match(await tc('qdisc', 'show', 'dev', device), /qdisc tbf 766d: .*rate 20Mbit/)
})

test('a queue device goes with its tap', { skip }, async (t) => {
  const taps = tapsOf(t)
  await taps.ensure(limited)
  assert.match(await ip('link', 'show', 'type', 'ifb'), /vmq100001/)
  await taps.remove(device, vmId)
  assert.equal(await ip('link', 'show', 'type', 'ifb'), '')
})

test(
  'a queue device whose tap somebody deleted is listed as that tap, and is removed as it',
  { skip },
  async (t) => {
    const taps = tapsOf(t)
    await taps.ensure(limited)
    await ip('link', 'del', device)
    assert.deepEqual(await taps.list(), [{ device, id: vmId, storeId: 'store-1' }])
    await taps.remove(device, vmId)
    assert.equal(await ip('link', 'show', 'type', 'ifb'), '')
    assert.deepEqual(await taps.list(), [])
  },
)

test('a queue device that was made and not yet marked is adopted', { skip }, async (t) => {
  const taps = tapsOf(t)
  await ip('link', 'add', queue, 'type', 'ifb')
  await taps.ensure(limited)
  assert.match(await ip('link', 'show', 'dev', queue), /UP[^]*alias vmhostd:store-1:web-1/)
})

test("a device of somebody else in the queue device's place is not touched", { skip }, async (t) => {
  const taps = tapsOf(t)
  await ip('link', 'add', queue, 'up', 'type', 'ifb')
  await taps.ensure(tapSpec)
  await assert.rejects(
    taps.ensure(limited),
    (error) => error instanceof HostFault && error.code === 'tap_name_taken',
  )
  await taps.ensure(tapSpec)
  await taps.remove(device, vmId)
  assert.match(await ip('link', 'show', 'dev', queue), /UP/)
})

test('a queue device sends nothing by itself', { skip }, async (t) => {
  const taps = tapsOf(t)
  await taps.ensure(limited)
  assert.doesNotMatch(await ip('addr', 'show', 'dev', queue), /inet/)
})
