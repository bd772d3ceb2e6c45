import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { atEnd } from '../contract/at-end.ts'
import { consolesContract } from '../contract/consoles.contract.ts'
import { realTerminals } from '../contract/real-terminals.ts'
import { until } from '../contract/until.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'
import { ConsoleService, systemctl } from './console-service.ts'
import type { Setting } from './console-service.ts'
import { skip } from './in-lab.ts'

const web = 'web-1' as VmId
const never = new AbortController().signal

const service = new ConsoleService()
after(() => skip === false && service.remove())

/** Returns the service with an empty store. All tests with the same set-up share it. */
async function serviceFor(t: TestContext, setting: Setting = {}, enabled = true): Promise<ConsoleService> {
  await service.install(setting, enabled)
  atEnd(t, async () => {
    await systemctl('start', service.name)
    await service.ask('empty')
    for (const id of await service.consoles.list()) await service.consoles.remove(id)
    await service.ask('forget')
  })
  return service
}

consolesContract(
  'consoles of a service',
  async (t) => {
    const { consoles, sessions } = await serviceFor(t)
    const terminals = realTerminals(() => consoles)
    atEnd(t, () => terminals.close())
    return {
      ...sessions,
      ...terminals,
      consoles: () => consoles,
      drop: async (id) => void (await service.ask('drop', id)),
      limit: async (places) => void (await service.ask('fill', web, places)),
      refuse: async (refusing) => void (await service.ask(refusing ? 'fill' : 'empty')),
      restart: async () => {
        await service.crash()
        return Number(await service.ask('adopted'))
      },
    }
  },
  { skip },
)

/** Starts a VM on a stored console: a unit that echoes its input. */
async function vmOn(t: TestContext): Promise<{ readonly pid: () => Promise<number> }> {
  const bus = new SystemdBus({ log: silentLog })
  const units = new SystemdUnits({ bus, log: silentLog, runDirectory: '/run/vmhostd-test' })
  atEnd(t, async () => {
    await units.ensureStopped(web, never)
    bus.close()
  })
  const ttyPath = await service.consoles.ensureMaster(web)
  await units.ensureStarted(web, unitSpecOf(web, { ttyPath, command: ['/usr/bin/cat'] }), never)
  return {
    pid: async () => {
      const state = await units.inspect(web)
      return state.kind === 'active' ? state.mainPid : 0
    },
  }
}

const ends: Record<string, (name: string) => Promise<unknown>> = {
  'a restart': (name) => systemctl('restart', name),
  'a stop and a start': async (name) => {
    await systemctl('stop', name)
    await systemctl('start', name)
  },
  'a kill': async (name) => {
    const pid = await systemctl('show', '--value', '--property=MainPID', name)
    await systemctl('kill', '--signal=KILL', name)
    await until(
      () => systemctl('show', '--value', '--property=MainPID', name),
      (other) => other !== '0' && other !== pid,
    )
    await systemctl('start', name)
  },
  "systemd's own re-execution": async (name) => {
    await systemctl('daemon-reexec')
    await systemctl('restart', name)
  },
  'a reload of all units': async (name) => {
    await systemctl('daemon-reload')
    await systemctl('restart', name)
  },
}

for (const [end, happen] of Object.entries(ends)) {
  test(`a VM lives through ${end} of the daemon, and its console continues`, { skip }, async (t) => {
    await serviceFor(t)
    const vm = await vmOn(t)
    const before = await vm.pid()
    assert.ok(before > 0)
    await happen(service.name)
    assert.equal(await service.ask('adopted'), 1)
    assert.equal(await vm.pid(), before)
    assert.equal((await service.consoles.inspect(web)).kind, 'stored')
  })
}

test('a descriptor that systemd did not keep is not taken for stored', { skip }, async (t) => {
  await serviceFor(t)
  await assert.rejects(service.ask('storeTwice'), (error) => {
    assert.ok(error instanceof HostFault && error.code === 'console_unprotected')
    return /did not keep it beside 1 others/.test(error.message)
  })
  assert.deepEqual(await service.ask('names'), ['filler'])
})

test('while the daemon is stopped the store stays', { skip }, async (t) => {
  await serviceFor(t)
  const vm = await vmOn(t)
  const before = await vm.pid()
  await systemctl('stop', service.name)
  assert.equal(await service.property('NFileDescriptorStore'), '1')
  assert.equal(await service.property('SubState'), 'dead-resources-pinned')
  assert.equal(await vm.pid(), before)
})

test('a VM whose console systemd lost ends with the daemon', { skip }, async (t) => {
  await serviceFor(t)
  const vm = await vmOn(t)
  await service.ask('drop', web)
  await systemctl('restart', service.name)
  await until(vm.pid, (pid) => pid === 0)
})

const wrong: readonly [why: string, setting: Setting, enabled: boolean, because: RegExp, remedy: RegExp][] = [
  ['is not enabled', {}, false, /nothing refers to .* \(disabled|static\)/, /^systemctl enable/],
  [
    // systemd sets `main` for any service that has Type=notify or a store.
    'may not speak to systemd',
    { Type: 'exec', NotifyAccess: 'none', FileDescriptorStoreMax: '0' },
    true,
    /NotifyAccess=none/,
    /NotifyAccess=main/,
  ],
  [
    'has no store',
    { FileDescriptorStoreMax: '0' },
    true,
    /FileDescriptorStoreMax=0/,
    /FileDescriptorStoreMax=4096/,
  ],
  [
    'keeps its store over a restart only',
    { FileDescriptorStorePreserve: 'restart' },
    true,
    /FileDescriptorStorePreserve=restart/,
    /FileDescriptorStorePreserve=yes/,
  ],
]

for (const [why, setting, enabled, because, remedy] of wrong) {
  test(`a service that ${why} says so, and makes no console`, { skip }, async (t) => {
    await serviceFor(t, setting, enabled)
    const check = (await service.ask('check')) as { available: boolean; because: string; remedy: string }
    assert.equal(check.available, false)
    assert.match(check.because, because)
    assert.match(check.remedy, remedy)
    await assert.rejects(service.consoles.ensureMaster(web), (error) => {
      assert.ok(error instanceof HostFault && error.code === 'console_unprotected')
      assert.match(error.message, because)
      return true
    })
    assert.deepEqual(await service.ask('names'), [])
  })
}

test('a service that is disabled while it runs makes no more consoles', { skip }, async (t) => {
  await serviceFor(t)
  await service.consoles.ensureMaster(web)
  await service.disable()
  // Its answer comes after all that systemd reported before.
  const check = (await service.ask('check')) as { available: boolean }
  assert.equal(check.available, false)
  await assert.rejects(service.consoles.ensureMaster('web-2' as VmId), { code: 'console_unprotected' })
})

test('a service with the right set-up says so, and takes each console once', { skip }, async (t) => {
  await serviceFor(t)
  assert.deepEqual(await service.ask('check'), { available: true })
  await service.consoles.ensureMaster(web)
  await service.consoles.ensureMaster(web)
  assert.equal(await service.property('NFileDescriptorStore'), '1')
  await service.consoles.removeMaster(web)
  assert.equal(await service.property('NFileDescriptorStore'), '0')
})
