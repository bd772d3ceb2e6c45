/** Ends of guests by themselves: what is started again, what stays ended, and what is deleted then. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setPower } from '../commands/vm/set-power.ts'
import { setDisk, setExit, setNetwork } from '../commands/vm/reshape.ts'
import { setMetadata } from '../commands/vm/set-metadata.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { given } from '../lib/given.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { IDLE_MS, SLEEPER } from '../../test/sleep-stage.ts'
import { DAY_MS, HOUR_MS } from '../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { ExitPolicy } from '../core/desired.ts'
import type { CreateNetwork } from '../core/vm/create.ts'

async function running(t: TestContext, exit?: ExitPolicy, network?: CreateNetwork) {
  const stage = await reconcileStage(t)
  stage.create(given({ exit, network }))
  await stage.idle()
  const { host, id, idle } = stage
  const end = async (lastWords: string): Promise<void> => {
    host.consoles.say(id, lastWords)
    host.fakeUnits.exit(id, 0)
    host.monitor.ended(id)
    await idle()
  }
  return { ...stage, end }
}

const OFF = 'reboot: Power down\r\n'
const REBOOT = 'reboot: Restarting system\r\n'
const PANIC = 'Kernel panic - not syncing: VFS\r\n'

test('a guest that reboots itself goes on at once, without a fault, under every policy', async (t) => {
  for (const restartPolicy of ['always', 'on_failure', 'never'] as const) {
    const { vm, end, shown } = await running(t, { restartPolicy })
    await end(REBOOT)
    assert.equal(shown(), 'running')
    assert.equal(vm().observed.restarts, 1)
    assert.equal(vm().observed.lastExit?.cause, 'rebooted')
  }
})

test('a fault of the guest that ended is over with it, already before the next guest runs', async (t) => {
  const { store, host, id, vm, end } = await running(t)
  const nowMs = host.clock.now()
  const fault = {
    code: 'monitor_detached',
    step: 'network.ensure-attached',
    message: 'its monitor was about to end',
    generation: vm().generations.desired,
    sinceMs: nowMs,
    attempt: 1,
    nextAttemptAtMs: nowMs,
  } as const
  store.vms.recordProgress(id, { observed: { ...vm().observed, fault }, nowMs })
  const faults: unknown[] = []
  store.onVmChange(() => {
    const { lastExit, fault: shown } = vm().observed
    if (lastExit !== undefined) faults.push(shown)
  })
  await end(REBOOT)
  assert.ok(faults.length > 0)
  assert.deepEqual(
    faults,
    faults.map(() => undefined),
  )
})

test('a guest that reboots again and again soon after its start is held back', async (t) => {
  const { clock, end, shown } = await running(t)
  for (let reboot = 1; reboot <= limits.rebootsInRowFree; reboot += 1) {
    await end(REBOOT)
    assert.equal(shown(), 'running')
  }
  await end(REBOOT)
  assert.equal(shown(), 'failed vm_exited')
  clock.advance(1000)
  await end('')
  assert.equal(shown(), 'running')
})

test('a guest that powers off is started again only under the policy always', async (t) => {
  for (const [restartPolicy, state] of [
    ['always', 'failed vm_exited'],
    ['on_failure', 'stopped'],
    ['never', 'stopped'],
  ] as const) {
    const { clock, vm, end, shown, idle } = await running(t, { restartPolicy })
    await end(OFF)
    assert.equal(shown(), state, restartPolicy)
    assert.deepEqual(vm().observed.lastExit?.consoleLines, ['reboot: Power down'])
    clock.advance(3_600_000)
    await idle()
    assert.equal(shown(), restartPolicy === 'always' ? 'running' : 'stopped')
    assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
  }
})

test('a guest that panics is a failure', async (t) => {
  const { shown, end } = await running(t, { restartPolicy: 'on_failure' })
  await end(PANIC)
  assert.equal(shown(), 'failed vm_exited')
})

test('a guest that ended stays ended over a restart of the daemon and of the host, until its power is requested', async (t) => {
  const { host, id, context, vm, end, shown, idle, stop, start } = await running(t, {
    restartPolicy: 'never',
  })
  await end(OFF)
  await stop()
  host.bootId = 'boot-2'
  await start()
  await idle()
  assert.equal(shown(), 'stopped')
  assert.ok(setPower(context, id, 'running').ok)
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(vm().generations, { desired: 2, observed: 2 })
  assert.equal(vm().observed.restarts, undefined)
})

test('a guest that ended while it was to be paused starts with the same request for power, once', async (t) => {
  const { id, context, vm, end, shown, idle } = await running(t, { restartPolicy: 'never' })
  const pause = async (): Promise<unknown> => {
    const result = setPower(context, id, 'paused')
    await idle()
    return result.ok && result.value.changed
  }
  assert.deepEqual([await pause(), shown()], [true, 'paused'])
  await end(OFF)
  assert.equal(shown(), 'stopped')
  assert.deepEqual([await pause(), shown()], [true, 'paused'])
  assert.deepEqual(vm().generations, { desired: 3, observed: 3 })
  assert.equal(await pause(), false)
})

test('the disk of a guest that ended for good grows at once, and its former prefix leaves the tap', async (t) => {
  const prefix = '2001:db8:7::/64'
  const network = { ipv6Address: '2001:db8::10', ipv6Prefix: prefix }
  const { host, context, id, idle, vm, shown, end } = await running(t, { restartPolicy: 'never' }, network)
  await end(OFF)
  assert.equal(shown(), 'stopped')
  assert.equal(host.taps.devices.withRoute(prefix), vm().host.device)
  const before = vm().desired.disk.sizeMib
  assert.ok(setDisk(context, id, { sizeMib: before + 1 }).ok)
  assert.ok(setNetwork(context, id, { ipv6Prefix: null }).ok)
  await idle()
  assert.equal(vm().observed.disk?.sizeMib, before + 1)
  assert.equal(host.taps.devices.withRoute(prefix), undefined)
  assert.deepEqual([shown(), vm().generations], ['stopped', { desired: 3, observed: 3 }])
})

test('a guest that powers off while it is saved leaves nothing of the save in the pool', async (t) => {
  const { host, clock, id, create, idle, turns, shown, vm } = await reconcileStage(t)
  create({ compute: SLEEPER, exit: { restartPolicy: 'never' } })
  await idle()
  t.mock.method(host.monitor, 'save', async ({ path }: { readonly path: string }) => {
    host.savedFiles.write(path, { id, memory: host.monitor.memoryOf(id), whole: false })
    host.consoles.say(id, OFF)
    host.fakeUnits.exit(id, 0)
    host.monitor.ended(id)
    throw new HostFault('monitor_unreachable', `saving VM ${id}`)
  })
  clock.advance(IDLE_MS)
  await turns()
  await idle()
  assert.equal(shown(), 'stopped')
  assert.deepEqual([host.savedFiles.paths(), vm().mayBeSaved], [[], undefined])
})

test('an end that the daemon did not see is judged by what the console kept', async (t) => {
  const { host, id, shown, idle, stop, start } = await running(t, { restartPolicy: 'never' })
  await stop()
  host.consoles.say(id, OFF)
  host.fakeUnits.exit(id, 0)
  host.monitor.ended(id)
  await start()
  await idle()
  assert.equal(shown(), 'stopped')
})

test('words of an earlier start do not count', async (t) => {
  const { vm, clock, idle, end } = await running(t)
  await end(OFF)
  clock.advance(1000)
  await idle()
  await end('')
  assert.equal(vm().observed.lastExit?.cause, 'unknown')
})

test('a VM is deleted when its guest ended, if it should be, and nothing is left of its unit', async (t) => {
  const { store, host, id, end } = await running(t, { restartPolicy: 'never', deleteOnExit: true })
  await end(OFF)
  assert.equal(store.vms.get(id), undefined)
  assert.ok(!host.fakeUnits.known.has(id))
})

test('a VM is deleted some time after its stop, unless it was started or protected meanwhile', async (t) => {
  const { clock, context, store, id, idle, shown } = await running(t)
  assert.ok(setExit(context, id, { restartPolicy: 'always', deleteAfterSeconds: 60 }).ok)
  const stop = async (): Promise<void> => {
    assert.ok(setPower(context, id, 'stopped').ok)
    await idle()
    assert.equal(shown(), 'stopped')
  }
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await idle()
  }
  await stop()
  await pass(59_000)
  assert.ok(setPower(context, id, 'running').ok)
  await pass(120_000)
  assert.equal(shown(), 'running')
  assert.ok(setMetadata(context, id, { labels: {}, protected: true }).ok)
  await stop()
  await pass(120_000)
  assert.equal(shown(), 'stopped')
  assert.ok(setMetadata(context, id, { labels: {}, protected: false }).ok)
  await idle()
  assert.equal(store.vms.get(id), undefined, 'it is due')
})

test('a VM whose protection is lifted before its time is deleted at that time', async (t) => {
  const { context, id, isThere, pass } = await stoppedForAnHour(t)
  assert.ok(setMetadata(context, id, { protected: true }).ok)
  await pass(HOUR_MS - 3000)
  await pass(2000)
  assert.ok(setMetadata(context, id, { protected: false }).ok)
  await pass(0)
  assert.ok(isThere())
  await pass(1000)
  assert.ok(!isThere())
})

/** A VM that was stopped just now, and is to be deleted an hour after that. */
async function stoppedForAnHour(t: TestContext) {
  const stage = await running(t, { restartPolicy: 'always', deleteAfterSeconds: 3600 })
  const { clock, context, store, id, idle, shown } = stage
  assert.ok(setPower(context, id, 'stopped').ok)
  await idle()
  assert.equal(shown(), 'stopped')
  return {
    ...stage,
    isThere: () => store.vms.get(id) !== undefined,
    pass: async (ms: number): Promise<void> => {
      clock.advance(ms)
      await idle()
    },
  }
}

test('a clock that is set ahead deletes no VM before its time', async (t) => {
  const { clock, isThere, pass } = await stoppedForAnHour(t)
  clock.set(DAY_MS)
  await pass(limits.resyncMs)
  assert.ok(isThere())
  clock.set(-DAY_MS)
  await pass(HOUR_MS - limits.resyncMs - 1)
  assert.ok(isThere())
  await pass(1)
  assert.ok(!isThere())
})

for (const [ahead, aheadMs] of [
  ['a year', 365 * DAY_MS],
  ['half an hour', HOUR_MS / 2],
] as const)
  test(`a VM that stopped while the clock was ${ahead} ahead is deleted in time after the clock is corrected`, async (t) => {
    const { clock, context, id, idle, isThere, pass } = await stoppedForAnHour(t)
    assert.ok(setPower(context, id, 'running').ok)
    await idle()
    clock.set(aheadMs)
    assert.ok(setPower(context, id, 'stopped').ok)
    await idle()
    clock.set(-aheadMs)
    await pass(HOUR_MS / 4)
    await pass(HOUR_MS / 4 + 1)
    await pass(HOUR_MS / 2 - 2)
    assert.ok(isThere())
    await pass(1)
    assert.ok(!isThere())
  })

test('a daemon whose clock is behind the stop counts the whole time itself', async (t) => {
  const { clock, idle, isThere, pass, start, stop } = await stoppedForAnHour(t)
  await stop()
  clock.set(DAY_MS)
  await start()
  await idle()
  clock.set(-365 * DAY_MS)
  await pass(HOUR_MS - 1)
  assert.ok(isThere())
  await pass(1)
  assert.ok(!isThere())
})

test('a daemon that starts while the clock is ahead holds the deletion, and a clock that is corrected saves the VM', async (t) => {
  const { clock, idle, isThere, pass, start, stop } = await stoppedForAnHour(t)
  await stop()
  clock.set(DAY_MS)
  await start()
  await idle()
  await pass(limits.deletionHoldMs - 1)
  assert.ok(isThere())
  clock.set(-DAY_MS)
  await pass(limits.resyncMs)
  assert.ok(isThere())
  await pass(HOUR_MS)
  assert.ok(!isThere())
})

test('a daemon that starts after the time of a deletion deletes the VM after a while', async (t) => {
  const { clock, idle, isThere, pass, start, stop } = await stoppedForAnHour(t)
  await stop()
  clock.advance(2 * HOUR_MS)
  await start()
  await idle()
  assert.ok(isThere())
  await pass(limits.deletionHoldMs)
  assert.ok(!isThere())
})

/** Puts a launch on record as it is after a restore, while no daemon runs. */
async function putBack({ store, id, vm, clock, stop }: Awaited<ReturnType<typeof running>>): Promise<void> {
  await stop()
  const { launch, observed } = vm()
  assert.ok(launch !== undefined)
  store.vms.recordProgress(id, { observed, launch: { ...launch, endsQuietly: true }, nowMs: clock.now() })
}

test('a guest that was stopped since the backup whose records are put back is started, and is not one that ended', async (t) => {
  const stage = await running(t, { restartPolicy: 'never', deleteOnExit: true })
  await putBack(stage)
  stage.host.fakeUnits.exit(stage.id, 0)
  stage.host.monitor.ended(stage.id)
  await stage.start()
  await stage.idle()
  assert.equal(stage.shown(), 'running')
  assert.equal(stage.vm().observed.lastExit, undefined)
  await stage.end(OFF)
  assert.equal(stage.store.vms.get(stage.id), undefined)
})

test('a guest that runs as in the records that are put back is taken over with its launch, and its end counts', async (t) => {
  const stage = await running(t, { restartPolicy: 'never' })
  const { launch } = stage.vm()
  await putBack(stage)
  await stage.start()
  await stage.idle()
  assert.deepEqual([stage.shown(), stage.vm().launch], ['running', launch])
  await stage.end(OFF)
  assert.deepEqual([stage.shown(), stage.vm().observed.lastExit?.cause], ['stopped', 'powered_off'])
})
