/** systemd unreachable, and back, while the daemon lives. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import { unitName } from '../../src/core/unit/unit-spec.ts'
import { run } from './run.ts'
import { PRIVATE_SOCKET, SYSTEM_BUS } from '../../src/host/systemd/bus.ts'
import type { BusAddress } from '../../src/host/systemd/bus.ts'
import {
  MANAGER,
  MANAGER_PATH,
  PROPERTIES,
  PROPERTIES_CHANGED,
  UNIT,
  unitPath,
} from '../../src/host/systemd/bus-names.ts'
import { forgetRestarts } from '../../src/host/systemd/own-unit.ts'
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

/** Starts the message bus, and returns once systemd has its name there: it connects after the start has ended. */
async function startDbus(): Promise<void> {
  await systemctl('start', 'dbus.socket', 'dbus.service')
  await until(
    async () => (await run(['busctl', 'list', '--acquired', '--no-legend'])).stdout,
    (names) => /^org\.freedesktop\.systemd1 /m.test(names),
  )
}

/** Returns the reported changes, a list that grows: VMs, and undefined where any may have changed. */
function seenBy(units: SystemdUnits): (VmId | undefined)[] {
  const seen: (VmId | undefined)[] = []
  units.watch((id) => seen.push(id))
  return seen
}

const anyMayHaveChanged = (seen: readonly (VmId | undefined)[]): boolean => seen.includes(undefined)

const asNobody = (...command: string[]): Promise<unknown> =>
  run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ...command])

/** Returns the names of all connections to the message bus that stay open, this process's among them. */
async function connectionNames(): Promise<readonly string[]> {
  const list = async (): Promise<readonly string[]> =>
    (await run(['busctl', 'list', '--unique', '--no-legend'])).stdout.match(/^:\S+/gm) ?? []
  // The one that lists is among them.
  const before = await list()
  return (await list()).filter((name) => before.includes(name))
}

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
    const seen = seenBy(units)
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    await stopDbus()
    atEnd(t, startDbus)
    await assert.rejects(units.inspect(web), isUnavailable)
    await assert.rejects(units.list(), isUnavailable)
    await assert.rejects(units.ensureStopped(web, new AbortController().signal), isUnavailable)
    assert.equal(seen.length, 0)
    await startDbus()
    // No call is made: the watcher's connection comes back on its own, and reports that anything may have changed.
    await until(() => [...seen], anyMayHaveChanged)
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

for (const address of [PRIVATE_SOCKET, SYSTEM_BUS])
  test(`${address.path}: systemd re-executes itself, and watchers inspect again`, { skip }, async (t) => {
    const units = unitsOver(t, address)
    const seen = seenBy(units)
    await units.inspect(web)
    await systemctl('daemon-reexec')
    await until(() => [...seen], anyMayHaveChanged)
    assert.deepEqual(await units.inspect(web), { kind: 'absent' })
    // The connection that systemd has now is listened to.
    await run(['systemd-run', '--quiet', '--wait', `--unit=${unitName(web)}`, 'true'])
    await until(
      () => [...seen],
      (ids) => ids.includes(web),
    )
  })

test('the restarts of a unit are counted from 0 again, and it runs on', { skip }, async (t) => {
  const name = 'vmhostd-restarts.service'
  const bus = new SystemdBus({ log: silentLog })
  atEnd(t, () => bus.close())
  const show = async (property: string): Promise<string> =>
    (await run(['systemctl', 'show', '--value', `--property=${property}`, name])).stdout.trim()
  const settings = ['--property=Restart=always', '--property=RestartSec=10ms']
  await run(['systemd-run', '--quiet', `--unit=${name}`, ...settings, 'sleep', 'infinity'])
  atEnd(t, () => systemctl('stop', name))
  const first = await show('MainPID')
  await systemctl('kill', '--signal=KILL', name)
  await until(
    () => show('NRestarts'),
    (restarts) => restarts === '1',
  )
  await until(
    () => show('ActiveState'),
    (state) => state === 'active',
  )
  const second = await show('MainPID')
  assert.notEqual(second, first)
  await forgetRestarts(bus, name)
  assert.deepEqual(
    [await show('NRestarts'), await show('ActiveState'), await show('MainPID')],
    ['0', 'active', second],
  )
})

test('over the message bus, a signal that systemd did not send is ignored', { skip }, async (t) => {
  const units = unitsOver(t, SYSTEM_BUS)
  const seen = seenBy(units)
  await units.inspect(web)
  const job = [MANAGER_PATH, MANAGER, 'JobRemoved', 'uoss', '1', '/', unitName(web), 'done']
  const change = [unitPath(unitName(web)), PROPERTIES, PROPERTIES_CHANGED, 'sa{sv}as', UNIT, '0', '0']
  for (const name of await connectionNames())
    for (const signal of [job, change]) await asNobody('busctl', `--destination=${name}`, 'emit', ...signal)
  await systemctl('daemon-reload')
  await until(() => [...seen], anyMayHaveChanged)
  assert.deepEqual(
    seen.filter((id) => id !== undefined),
    [],
  )
})

test('a host without systemd is reported, call by call', { skip }, async (t) => {
  const units = unitsOver(t, { path: '/run/vmhostd-no-such-socket', direct: true })
  for (const _ of [1, 2]) await assert.rejects(units.inspect(web), isUnavailable)
})
