import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { breakRecord } from '../../test/break-record.ts'
import { lockStore } from '../../test/locked-store.ts'
import { SLEEPER, sleepStage } from '../../test/sleep-stage.ts'
import { time } from '../api/wire/values.ts'
import { vmToWire } from '../api/wire/vm-to-wire.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { VmId } from '../core/ids.ts'

type Stage = Awaited<ReturnType<typeof sleepStage>>

/** The daemon saves the guests and ends, systemd ends the units, and the host boots. */
async function reboot(stage: Pick<Stage, 'endWithHost' | 'stop' | 'host' | 'start' | 'idle'>): Promise<void> {
  await stage.endWithHost()
  await stage.stop()
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
}

/** Returns the last stop as the API shows it. */
const lastStop = ({ vm }: Pick<Stage, 'vm'>) => vmToWire(vm()).observed.last_stop

test('a running guest goes on after a reboot of the host', async (t) => {
  const stage = await sleepStage(t)
  await reboot(stage)
  assert.ok(stage.goesOn())
  assert.equal(stage.shown(), 'running')
  const { observed, wake, generations } = stage.vm()
  assert.deepEqual([observed.lastWake?.reason, wake], ['host_booted', undefined])
  assert.deepEqual(generations, { desired: 1, observed: 1 })
  assert.deepEqual(stage.host.monitor.relived, [])
})

test('a guest that a loss of power took is noted, and boots at once whatever its restart policy', async (t) => {
  const stage = await reconcileStage(t)
  const { host, store, vm } = stage
  stage.create({ exit: { restartPolicy: 'never' } })
  await stage.idle()
  const { life } = host.monitor.memoryOf(stage.id)
  await stage.stop()
  await host.reboot()
  await stage.start()
  await stage.idle()
  assert.notEqual(host.monitor.memoryOf(stage.id).life, life)
  assert.equal(stage.shown(), 'running')
  const { lastExit, restarts, lastStop: stop } = vm().observed
  assert.deepEqual([lastExit?.cause, restarts, stop, vm().exitStreak], ['host_down', undefined, undefined, 0])
  const events = store.events.list({ after: 0, limit: limits.eventsMax })
  const exits = events.filter(({ body }) => body.kind === 'vm_exit')
  assert.equal(exits.length, 1)
})

test('a sleeping VM sleeps on over a reboot of the host, whatever an earlier daemon left on its record', async (t) => {
  const stage = await sleepStage(t)
  await stage.fallAsleep()
  const nowMs = stage.clock.now()
  const launch = { bootId: stage.host.bootId, atMs: nowMs, compute: SLEEPER }
  stage.store.vms.recordProgress(stage.id, { observed: stage.vm().observed, launch, nowMs })
  await reboot(stage)
  assert.deepEqual([stage.shown(), stage.vm().wake], ['sleeping', undefined])
})

test('a daemon that has not looked at its VMs yet saves their guests too', async (t) => {
  const stage = await sleepStage(t)
  await stage.stop()
  stage.begin()
  const { saved } = await stage.endWithHost()
  assert.deepEqual(saved, [stage.id])
  await stage.stop()
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
  assert.ok(stage.goesOn())
})

test('the wake after a reboot is counted from the boot, not from the shutdown', async (t) => {
  const stage = await sleepStage(t)
  await stage.endWithHost()
  await stage.stop()
  await stage.host.reboot()
  stage.clock.advance(60_000)
  await stage.start()
  await stage.idle()
  assert.ok((stage.vm().observed.lastWake?.durationMs ?? Infinity) < 60_000)
})

test('a sleeping guest sleeps on after a reboot of the host', async (t) => {
  const stage = await sleepStage(t)
  await stage.fallAsleep()
  await reboot(stage)
  assert.equal(stage.shown(), 'sleeping')
  stage.receive('first')
  await stage.idle()
  assert.ok(stage.goesOn())
  assert.equal(stage.vm().observed.lastWake?.reason, 'traffic')
})

test('a paused guest is paused after a reboot of the host, and goes on when it is asked to', async (t) => {
  const stage = await sleepStage(t)
  setPower(stage.context, stage.id, 'paused')
  await stage.idle()
  await reboot(stage)
  assert.equal(stage.shown(), 'paused')
  setPower(stage.context, stage.id, 'running')
  await stage.idle()
  assert.ok(stage.goesOn())
})

test('a shutdown that is called off lets the guests go on', async (t) => {
  const stage = await sleepStage(t)
  await stage.endWithHost()
  assert.ok(!stage.goesOn())
  await stage.stop()
  await stage.start()
  await stage.idle()
  assert.ok(stage.goesOn())
  assert.deepEqual(stage.host.ended, [])
})

test('a save that fails at a shutdown leaves a guest that boots again, and no fault', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const { life } = stage.host.monitor.memoryOf(stage.id)
  stage.host.monitor.failNext('save', new HostFault('save_failed', 'the disk is full'))
  await reboot(stage)
  assert.notEqual(stage.host.monitor.memoryOf(stage.id).life, life)
  assert.equal(stage.shown(), 'running')
  assert.equal(stage.vm().wake, undefined)
})

test('a power cut in the middle of the saves loses none that is published', async (t) => {
  const stage = await sleepStage(t)
  stage.createAnother(12)
  await stage.idle()
  const release = stage.host.monitor.holdNext('save')
  const saving = stage.endWithHost()
  await stage.turns()
  await stage.host.reboot()
  release()
  await Promise.all([saving, stage.stop()])
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
  const states = ['web-1', 'web-12'].map((id) => stage.host.monitor.stateOf(id as VmId).kind)
  assert.deepEqual(states, ['running', 'running'])
  assert.deepEqual(stage.host.monitor.relived, [])
})

for (const power of ['stopped', 'running'] as const)
  test(`a VM that is to be ${power} and waits for its image stays pending over a reboot of the host`, async (t) => {
    const stage = await reconcileStage(t)
    const release = stage.host.storage.holdNext('ensureImage')
    stage.create({ power })
    await stage.turns()
    assert.equal(stage.shown(), 'pending')
    await stage.endWithHost()
    assert.equal(stage.shown(), 'pending')
    await stage.stop()
    release()
    await stage.host.reboot()
    await stage.start()
    await stage.idle()
    assert.equal(stage.shown(), power)
  })

test('a VM that failed stays failed while the host shuts down, and says why', async (t) => {
  const stage = await reconcileStage(t)
  stage.host.storage.failNext('ensureImage', new HostFault('image_unavailable', 'the server does not answer'))
  stage.create()
  await stage.idle()
  const failed = stage.shown()
  assert.match(failed, /^failed image/)
  await stage.endWithHost()
  assert.equal(stage.shown(), failed)
})

test('an end of a unit during the shutdown is not an exit', async (t) => {
  const stage = await sleepStage(t)
  await stage.endWithHost()
  stage.host.fakeUnits.exit(stage.id, 1)
  await stage.idle()
  assert.equal(stage.vm().observed.fault, undefined)
  assert.equal(stage.vm().exitStreak, 0)
})

test('after a boot, no more guests are restored at once than the disk should take, and all come', async (t) => {
  const stage = await reconcileStage(t)
  const ids = Array.from({ length: limits.restoresMax + 3 }, (_, index) => `web-${index + 1}` as VmId)
  for (const [index, id] of ids.entries())
    stage.create({ network: { ipv4Address: `192.0.2.${index + 1}` } }, id)
  await stage.idle()
  await stage.endWithHost()
  await stage.stop()
  await stage.host.reboot()
  const releases = ids.map(() => stage.host.monitor.holdNext('ensureRestored'))
  const started = stage.start()
  await stage.turns()
  const waiting = ids.filter((id) => stage.store.vms.get(id)?.observed.waitingFor === 'a turn to wake')
  assert.equal(waiting.length, 3)
  for (const release of releases) release()
  await started
  await stage.idle()
  await stage.turns()
  await stage.idle()
  assert.deepEqual(
    ids.map((id) => stage.host.monitor.stateOf(id).kind),
    ids.map(() => 'running'),
  )
})

test('a guest that is asked to end at a shutdown ends, and boots again afterwards', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  stage.host.monitor.agents.add(stage.id)
  const { life } = stage.host.monitor.memoryOf(stage.id)
  const endedAtMs = stage.clock.now()
  const { saved, ended, left } = await stage.endWithHost('ask')
  assert.deepEqual([saved, ended, left], [[], [stage.id], []])
  assert.equal(stage.vm().observed.fault, undefined)
  await stage.stop()
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
  assert.equal(stage.shown(), 'running')
  assert.notEqual(stage.host.monitor.memoryOf(stage.id).life, life)
  assert.deepEqual(lastStop(stage), { at: time(endedAtMs), how: 'graceful', reason: 'host_shutdown' })
})

for (const how of ['ended', 'left'] as const)
  test(`in the same boot, a guest that the shutdown has ${how} boots again whatever its restart policy`, async (t) => {
    const stage = await reconcileStage(t)
    stage.create({ exit: { restartPolicy: 'never', deleteOnExit: true } })
    await stage.idle()
    if (how === 'ended') stage.host.monitor.agents.add(stage.id)
    assert.deepEqual((await stage.endWithHost('ask'))[how], [stage.id])
    await stage.stop()
    if (how === 'left') stage.host.fakeUnits.exit(stage.id, 0)
    await stage.start()
    await stage.idle()
    assert.equal(stage.shown(), 'running')
    assert.equal(stage.vm().observed.lastExit, undefined)
  })

test('a guest that ignored a shutdown which is called off runs on, and its end is an exit again', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const { life } = stage.host.monitor.memoryOf(stage.id)
  await stage.endWithHost('ask')
  await stage.stop()
  await stage.start()
  await stage.idle()
  assert.deepEqual([stage.shown(), stage.host.monitor.memoryOf(stage.id).life], ['running', life])
  stage.host.fakeUnits.exit(stage.id, 1)
  await stage.idle()
  assert.equal(stage.shown(), 'failed vm_exited')
})

test('a stop at a shutdown stays shown until the next stop, which was requested', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const { left } = await stage.endWithHost('ask')
  assert.deepEqual(left, [stage.id])
  assert.deepEqual([lastStop(stage)?.how, lastStop(stage)?.reason], ['deadline', 'host_shutdown'])
  await stage.stop()
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
  assert.equal(lastStop(stage)?.reason, 'host_shutdown')
  setPower(stage.context, stage.id, 'stopped')
  await stage.idle()
  assert.deepEqual([lastStop(stage)?.how, lastStop(stage)?.reason], ['hard', 'request'])
})

test('a guest whose saved state the next look finds unfit is asked to end', async (t) => {
  const stage = await sleepStage(t)
  const publish = stage.host.savedStates.publish.bind(stage.host.savedStates)
  stage.host.savedStates.publish = async (...args) => {
    const published = await publish(...args)
    stage.host.monitor.version = '0.9'
    return published
  }
  const { saved, left } = await stage.endWithHost()
  await stage.idle()
  assert.deepEqual([saved, left, stage.host.monitor.askedToEnd], [[], [stage.id], [stage.id]])
  assert.deepEqual([stage.host.savedFiles.paths(), stage.host.monitor.relived], [[], []])
})

test('a guest that cannot be saved is asked to end, and may ignore it', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  stage.host.monitor.failNext('save', new HostFault('save_failed', 'the disk is full'))
  const { left } = await stage.endWithHost()
  await stage.idle()
  assert.deepEqual(left, [stage.id])
  assert.equal(stage.host.monitor.askedToEnd.length, 1)
})

test('a guest that boots and does not hear is asked again at a shutdown, and then ends', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const ending = stage.endWithHost('ask', new AbortController().signal)
  await stage.turns()
  assert.equal(stage.host.monitor.askedToEnd.length, 1)
  await stage.later(limits.askToEndAgainMs - 1)
  assert.equal(stage.host.monitor.askedToEnd.length, 1)
  stage.host.monitor.agents.add(stage.id)
  await stage.later(1)
  assert.equal(stage.host.monitor.askedToEnd.length, 2)
  await stage.later(limits.shutdownLookMs)
  const { ended, left } = await ending
  assert.deepEqual([ended, left, lastStop(stage)?.how], [[stage.id], [], 'graceful'])
})

test('a look at a guest between two requests at a shutdown does not delay the second', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  const bound = new AbortController()
  const ending = stage.endWithHost('ask', bound.signal)
  await stage.turns()
  await stage.later(limits.askToEndAgainMs - 1000)
  await stage.noticed()
  assert.equal(stage.host.monitor.askedToEnd.length, 1)
  await stage.later(1000)
  assert.equal(stage.host.monitor.askedToEnd.length, 2)
  bound.abort()
  await stage.later(limits.shutdownLookMs)
  await ending
})

test('a record that cannot be read keeps no other guest from being saved at a shutdown', async (t) => {
  const stage = await sleepStage(t)
  stage.createAnother(12)
  await stage.idle()
  breakRecord(stage.directory, 'web-12' as VmId)
  const { saved } = await stage.endWithHost()
  assert.deepEqual(saved, [stage.id])
})

test('a guest is asked to end at a shutdown although nothing can be written', async (t) => {
  const stage = await sleepStage(t)
  stage.host.monitor.agents.add(stage.id)
  const free = lockStore(stage.directory)
  const ending = stage.endWithHost('save', new AbortController().signal)
  await stage.turns()
  await stage.later(limits.shutdownLookMs)
  const { saved, ended } = await ending
  assert.deepEqual([saved, ended], [[], [stage.id]])
  await free()
})

test('units that cannot be seen for a moment do not end a shutdown of the host', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  stage.host.monitor.agents.add(stage.id)
  stage.host.fakeUnits.failNext('active', new HostFault('systemd_unavailable', 'systemd does not answer'))
  const end = stage.endWithHost('ask', new AbortController().signal)
  await stage.turns()
  await stage.later(limits.shutdownLookMs)
  const { ended, left } = await end
  assert.deepEqual([ended, left], [[stage.id], []])
})
