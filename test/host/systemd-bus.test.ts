/** systemd unreachable, and back, while the daemon lives. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import { run } from '../../src/host/exec/exec.ts'
import { PRIVATE_SOCKET, SYSTEM_BUS } from '../../src/host/systemd/bus.ts'
import type { BusAddress } from '../../src/host/systemd/bus.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'

const web = 'web-1' as VmId

function unitsOver(t: TestContext, ...addresses: readonly BusAddress[]): SystemdUnits {
  const bus = new SystemdBus({ log: silentLog, addresses })
  atEnd(t, () => bus.close())
  return new SystemdUnits({ bus, log: silentLog, runDirectory: '/run/vmhostd-test' })
}

const systemctl = (...words: string[]): Promise<unknown> => run(['systemctl', ...words])
const stopDbus = (): Promise<unknown> => systemctl('stop', 'dbus.socket', 'dbus.service')
const startDbus = (): Promise<unknown> => systemctl('start', 'dbus.socket')

const isUnavailable = (error: unknown): boolean =>
  error instanceof HostFault && error.code === 'systemd_unavailable' && error.retry === 'backoff'

test('without the message bus, systemd is still reachable', { skip }, async (t) => {
  const units = unitsOver(t, PRIVATE_SOCKET, SYSTEM_BUS)
  assert.deepEqual(await units.inspect(web), { kind: 'absent' })
  await stopDbus()
  atEnd(t, startDbus)
  assert.deepEqual(await units.inspect(web), { kind: 'absent' })
  assert.deepEqual(await units.list(), [])
})

test(
  'over the message bus alone, calls fail while it is gone, and recover by themselves',
  { skip },
  async (t) => {
    const units = unitsOver(t, SYSTEM_BUS)
    const seen: (VmId | undefined)[] = []
    units.watch((id) => seen.push(id))
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    await stopDbus()
    atEnd(t, startDbus)
    await assert.rejects(units.inspect(web), isUnavailable)
    await assert.rejects(units.list(), isUnavailable)
    await assert.rejects(units.ensureStopped(web, new AbortController().signal), isUnavailable)
    assert.equal(seen.length, 0)
    await startDbus()
    // No call is made: the watcher's connection comes back on its own, and reports that anything may have changed.
    await until(
      () => [...seen],
      (ids) => ids.includes(undefined),
      10_000,
    )
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
  },
)

test('a call that waits when the connection ends fails with that', { skip }, async (t) => {
  const bus = new SystemdBus({ log: silentLog, addresses: [SYSTEM_BUS] })
  atEnd(t, () => bus.close())
  await bus.connect()
  const lost = Promise.withResolvers<HostFault>()
  bus.onLoss(lost.resolve)
  await stopDbus()
  atEnd(t, startDbus)
  assert.ok(isUnavailable(await lost.promise))
})

test('systemd re-executes itself, and watchers are notified to inspect again', { skip }, async (t) => {
  const units = unitsOver(t, PRIVATE_SOCKET, SYSTEM_BUS)
  const seen: (VmId | undefined)[] = []
  units.watch((id) => seen.push(id))
  await units.inspect(web)
  await systemctl('daemon-reexec')
  await until(
    () => [...seen],
    (ids) => ids.includes(undefined),
    10_000,
  )
  assert.deepEqual(await units.inspect(web), { kind: 'absent' })
})

test('a host without systemd is reported, call by call', { skip }, async (t) => {
  const units = unitsOver(t, { path: '/run/vmhostd-no-such-socket', direct: true })
  for (const _ of [1, 2]) await assert.rejects(units.inspect(web), isUnavailable)
})
