/** Which processes get a lost tap back, and which do not. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { GATEWAY_MAC } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild } from '../contract/child.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { holdTap } from './hold-tap.ts'

const { device, vmId, userId } = tapSpec

async function withTap(t: TestContext): Promise<RoutedTaps> {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  atEnd(t, () => taps.close())
  for (const spec of [tapSpec, otherSpec]) atEnd(t, () => taps.remove(spec.device, spec.vmId))
  await taps.ensure(tapSpec)
  return taps
}

const detached = (cause: string) => (error: unknown) =>
  error instanceof HostFault &&
  error.code === 'monitor_detached' &&
  error.cause instanceof Error &&
  'code' in error.cause &&
  error.cause.code === cause

const isAttached = async (taps: RoutedTaps): Promise<boolean> => {
  const state = await taps.inspect(device, vmId)
  return state.kind === 'present' && state.facts.attached
}

test('a process of the right user that never had a tap gets none', { skip }, async (t) => {
  const taps = await withTap(t)
  const process_ = spawn('sleep', ['infinity'], { uid: userId, gid: userId })
  atEnd(t, () => endChild(process_))
  await once(process_, 'spawn')
  await assert.rejects(taps.ensureAttached(tapSpec, process_.pid ?? 0), detached('ENXIO'))
})

test('a process of another user that lost a tap does not get this one', { skip }, async (t) => {
  const taps = await withTap(t)
  await taps.ensure(otherSpec)
  const other = await holdTap(t, otherSpec)
  await run(['ip', 'link', 'del', otherSpec.device])
  await assert.rejects(taps.ensureAttached(tapSpec, other.pid), detached('EPERM'))
  assert.equal(await isAttached(taps), false)
})

test('a tap that another process took meanwhile is not taken from it', { skip }, async (t) => {
  const taps = await withTap(t)
  const first = await holdTap(t, tapSpec)
  await run(['ip', 'link', 'del', device])
  await taps.ensure(tapSpec)
  const second = await holdTap(t, tapSpec)
  await assert.rejects(taps.ensureAttached(tapSpec, first.pid), detached('EBUSY'))
  await taps.ensureAttached(tapSpec, second.pid)
  await second.end()
  await taps.ensureAttached(tapSpec, first.pid)
  assert.equal(await isAttached(taps), true)
})

test('a process that ended gets nothing, and that is soon tried again', { skip }, async (t) => {
  const taps = await withTap(t)
  const holder = await holdTap(t, tapSpec)
  await holder.end()
  await assert.rejects(
    taps.ensureAttached(tapSpec, holder.pid),
    (error) => detached('ESRCH')(error) && error instanceof HostFault && error.retry === 'soon',
  )
})

test('every tap has the one hardware address by which guests know their gateway', { skip }, async (t) => {
  const taps = await withTap(t)
  await taps.ensure(otherSpec)
  for (const name of [device, otherSpec.device]) {
    assert.match(
      (await run(['ip', 'link', 'show', 'dev', name])).stdout,
      new RegExp(`link/ether ${GATEWAY_MAC}`),
    )
  }
})
