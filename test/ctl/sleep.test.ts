import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import type { TestContext } from 'node:test'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Observed } from '../../src/core/vm/record.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const id = 'web-1' as VmId
const savedState = { savedAtMs: 1, sizeMib: 84, memoryMib: 512 }

/** Starts a stage with a settled VM that sleeps after ten minutes without traffic. */
async function stageWithSleeper(t: TestContext): Promise<CtlStage> {
  const stage = await startCtlStage(t, pki)
  const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
  const { status, err } = await stage.run(`vm create ${id} ${images} --ipv4 192.0.2.10 --sleep-after 10m`)
  assert.equal(status, 0, err)
  see(stage, { state: 'sleeping', savedState })
  return stage
}

/** Records an observation, as if a pass had made it and the VM had settled. */
function see(stage: CtlStage, observed: Omit<Observed, 'sinceMs'>): void {
  const observedGeneration = stage.host.store.vms.get(id)?.generations.desired
  assert.ok(observedGeneration !== undefined)
  glimpse(stage, observed, { observedGeneration })
}

/** Records an observation, as if a pass had made it and was not done. */
function glimpse(
  { host: { store } }: CtlStage,
  observed: Omit<Observed, 'sinceMs'>,
  also: { readonly observedGeneration?: Generation } = {},
): void {
  store.vms.recordProgress(id, { observed: { sinceMs: 1, ...observed }, ...also, nowMs: 1 })
}

/** Waits until the daemon holds a long poll of the wait. */
const polling = ({ host }: CtlStage): Promise<void> => eventually(() => host.waits.size === 1)

test('the list shows after how long VMs sleep, the saved state of those that do, and which of them flap', async (t) => {
  const stage = await stageWithSleeper(t)
  const row = async (): Promise<string> => (await stage.run('vm ls')).out.split('\n')[1] ?? ''
  assert.match(await row(), /^web-1 +sleeping +1 +1 +512 MiB +2 GiB +84 MiB saved +192\.0\.2\.10 +-$/)
  see(stage, { state: 'running' })
  assert.match(await row(), /^web-1 +running .* after 10 min +192/)
  see(stage, { state: 'running', shortSleeps: 5 })
  assert.match(await row(), /^web-1 +running .* after 10 min, flaps +192/)
})

test('the host shows how many of its VMs are asleep', async (t) => {
  const stage = await stageWithSleeper(t)
  assert.match((await stage.run('sync')).out, /VMs +1, 1 as desired, 1 asleep\n/)
})

test('start wakes a VM that sleeps, and names the command to watch; so does a start while it wakes', async (t) => {
  const stage = await stageWithSleeper(t)
  const { status, out } = await stage.run(`vm start ${id}`)
  assert.equal(status, 0)
  assert.equal(out, 'web-1: accepted; generation 1 of 2. To wait for it: vmhostctl vm wait web-1\n')
  assert.equal(stage.host.store.vms.get(id)?.wake?.reason, 'power')
  glimpse(stage, { state: 'waking', savedState })
  assert.equal(
    (await stage.run(`vm start ${id}`)).out,
    'web-1: waking, and asked to wake. To wait for it: vmhostctl vm wait web-1 --for running\n',
  )
})

for (const verb of ['start', 'resume']) {
  test(`${verb} --wait ends when the guest is back`, async (t) => {
    const stage = await stageWithSleeper(t)
    const { result, printed } = stage.start(`vm ${verb} ${id} --wait`)
    await polling(stage)
    glimpse(stage, { state: 'waking', savedState })
    await eventually(() => printed().includes('waking'))
    await polling(stage)
    see(stage, { state: 'running' })
    const { status, out, err } = await result
    assert.equal(status, 0)
    assert.equal(out, 'web-1: running, generation 2\n')
    assert.equal(err, 'web-1: sleeping, generation 1 of 2\nweb-1: waking, generation 1 of 2\n')
  })
}

test('any other change waits only for the generations: a VM may sleep on', async (t) => {
  const stage = await stageWithSleeper(t)
  const { result } = stage.start(`vm resize ${id} --sleep-after 5m --wait`)
  await polling(stage)
  see(stage, { state: 'sleeping', savedState })
  assert.equal((await result).out, 'web-1: sleeping, generation 2\n')
})

test('a wait can be for sleep, or for the end of it', async (t) => {
  const stage = await stageWithSleeper(t)
  see(stage, { state: 'running' })
  const { result } = stage.start(`vm wait ${id} --for sleeping`)
  await polling(stage)
  see(stage, { state: 'sleeping', savedState })
  assert.equal((await result).out, 'web-1: sleeping, generation 1\n')
  const { status, err } = await stage.run(`vm wait ${id} --for running --timeout 0`)
  assert.equal(status, 3)
  assert.match(err, /web-1 is not running after 0 s; sleeping, generation 1/)
  const ready = await stage.run(`vm wait ${id} --for ready --timeout 0`)
  for (const text of [err, ready.err]) {
    assert.match(
      text,
      /\n {2}it sleeps: unless its host is drained, a packet wakes it, and so do vmhostctl vm start web-1 and vmhostctl vm keep-awake web-1 TIME\n/,
    )
    assert.doesNotMatch(text, /the daemon continues/)
  }
})

test('a wait for the sleep of a VM that never sleeps says so', async (t) => {
  const stage = await stageWithSleeper(t)
  await stage.run(`vm resize ${id} --sleep-after 0`)
  see(stage, { state: 'running' })
  assert.match(
    (await stage.run(`vm wait ${id} --for sleeping --timeout 0`)).err,
    /\n {2}its idle timeout is 0, so it never sleeps: vmhostctl vm resize web-1 --sleep-after TIME changes that\n/,
  )
})

test('a wait for a state that no VM stays in is refused', async (t) => {
  const stage = await stageWithSleeper(t)
  const { status, err } = await stage.run(`vm wait ${id} --for waking`)
  assert.equal(status, 2)
  assert.match(err, /running, sleeping, paused, stopped/)
})

/** Records a VM that could not be woken. */
const refuseWake = (stage: CtlStage, generation: number): void =>
  glimpse(stage, {
    state: 'failed',
    savedState,
    fault: {
      code: 'saved_state_foreign',
      step: 'monitor.ensure-restored',
      message: 'the saved state is of another disk; PUT power stopped removes it',
      generation: generation as Generation,
      sinceMs: 1,
      attempt: 1,
      nextAttemptAtMs: Date.now() + 30_000,
    },
  })

test('a failed wake is reported while start waits, and the wait continues', async (t) => {
  const stage = await stageWithSleeper(t)
  const { result, printed } = stage.start(`vm start ${id} --wait`)
  await polling(stage)
  refuseWake(stage, 2)
  await eventually(() => printed().includes('is of another disk; PUT power stopped removes it'))
  await polling(stage)
  see(stage, { state: 'running' })
  assert.equal((await result).status, 0)
})

test('a failed wake ends the wait if the option asks for that; another start tries again', async (t) => {
  const stage = await stageWithSleeper(t)
  const { result } = stage.start(`vm start ${id} --wait --fail-on-error`)
  await polling(stage)
  refuseWake(stage, 2)
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /is of another disk; PUT power stopped removes it/)
  assert.match((await stage.run(`vm start ${id}`)).out, /^web-1: failed, and asked to wake\./)
})

test('keep-awake asks for the time from now, wakes a VM that sleeps, and vm get shows how much of it is left', async (t) => {
  const stage = await stageWithSleeper(t)
  const nowMs = Date.parse('2030-01-01T00:00:00Z')
  const run = (line: string) => stage.run(line, { shell: { nowMs: () => nowMs } })
  assert.equal(
    (await run(`vm keep-awake ${id} 20m`)).out,
    'web-1: sleeping, and asked to wake. To wait for it: vmhostctl vm wait web-1 --for running\n',
  )
  assert.equal(stage.host.store.vms.get(id)?.keepAwakeUntilMs, nowMs + 1_200_000)
  see(stage, { state: 'running' })
  assert.match((await run(`vm get ${id}`)).out, /kept awake +for 20 min, until 2030-01-01T00:20:00\.000Z\n/)
  assert.equal((await run(`vm keep-awake ${id} 0`)).out, 'web-1: changed\n')
  assert.doesNotMatch((await run(`vm get ${id}`)).out, /kept awake/)
})

test('keep-awake says if it has no effect yet', async (t) => {
  const stage = await stageWithSleeper(t)
  const nowMs = Date.parse('2030-01-01T00:00:00Z')
  const run = (line: string) => stage.run(line, { shell: { nowMs: () => nowMs } })
  await stage.run(`vm stop ${id}`)
  see(stage, { state: 'stopped' })
  assert.equal(
    (await run(`vm keep-awake ${id} 20m`)).out,
    'web-1: changed; it is stopped, and when it runs it does not sleep before 2030-01-01T00:20:00.000Z\n',
  )
  assert.equal((await run(`vm keep-awake ${id} 0`)).out, 'web-1: changed\n')
  await run(`vm resize ${id} --sleep-after 0`)
  see(stage, { state: 'stopped' })
  assert.equal(
    (await run(`vm keep-awake ${id} 20m`)).out,
    'web-1: changed; its idle timeout is 0, so it never sleeps\n',
  )
})

test('keep-awake needs a time that it can read', async (t) => {
  const stage = await stageWithSleeper(t)
  for (const words of ['', ' soon', ' 20m 30m'])
    assert.equal((await stage.run(`vm keep-awake ${id}${words}`)).status, 2, words)
})

test('wait --for ready ends when the guest runs and its agent is seen, and vm get shows the agent', async (t) => {
  const stage = await stageWithSleeper(t)
  const { vms } = stage.host.store
  vms.setGuestSeen(id, { agentSinceMs: 1 }, 1)
  assert.equal((await stage.run(`vm wait ${id} --for ready --timeout 0`)).status, 3, 'it is asleep')
  see(stage, { state: 'running' })
  vms.setGuestSeen(id, {}, 1)
  const { result, printed } = stage.start(`vm wait ${id} --for ready`)
  await eventually(() => printed().includes('not ready yet'))
  await polling(stage)
  vms.setGuestSeen(id, { agentSinceMs: 1 }, 1)
  const { status, out, err } = await result
  assert.equal(status, 0)
  assert.match(err, /web-1: running, generation .*, not ready yet\n/)
  assert.match(out, /^web-1: running, generation .*, ready\n$/)
  assert.match((await stage.run(`vm get ${id}`)).out, /\n +agent +for .*\n +ready +for /)
})

test('readiness sets and removes a check, and vm get shows it with what it found', async (t) => {
  const stage = await stageWithSleeper(t)
  const { vms } = stage.host.store
  assert.match(
    (await stage.run(`vm readiness ${id} http:80/healthz`)).out,
    /^web-1: accepted; generation 1 of 2/,
  )
  const by = { protocol: 'http', port: 80, path: '/healthz' } as const
  assert.deepEqual(vms.get(id)?.desired.readiness, by)
  see(stage, { state: 'running' })
  vms.setGuestSeen(id, { agentSinceMs: 1, checked: { by, because: 'status 503' } }, 1)
  assert.match(
    (await stage.run(`vm get ${id}`)).out,
    /readiness +http:80\/healthz\n +agent .*\n +ready +no: status 503\n/,
  )
  const unready = await stage.run(`vm wait ${id} --for ready --timeout 0`)
  assert.equal(unready.status, 3)
  assert.match(unready.err, /is not ready after 0 s; running, generation .*, not ready: status 503\n/)
  assert.match(unready.err, /vmhostctl vm wait web-1 --for ready waits again/)
  vms.setGuestSeen(id, {}, 1)
  assert.match((await stage.run(`vm get ${id}`)).out, /\n +ready +no: not seen yet\n/)
  assert.equal((await stage.run(`vm readiness ${id} none`)).status, 0)
  assert.equal(vms.get(id)?.desired.readiness, undefined)
  for (const wrong of ['udp:53', 'tcp:22/x', 'http', '80', 'tcp:0', 'http:65536/'])
    assert.equal((await stage.run(`vm readiness ${id} ${wrong}`)).status, 2, wrong)
})
