import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { given } from '../../src/lib/given.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { ctl, startCtlStage, writeProfile } from './support/ctl-stage.ts'
import { IMAGES, settle } from './support/vms.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { FaultCode } from '../../src/core/errors.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { ObservedState, WaitReason } from '../../src/core/vm/record.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const id = 'web-1' as VmId

async function stageWithVm(t: TestContext): Promise<CtlStage> {
  const stage = await startCtlStage(t, pki)
  const { status, err } = await stage.run(`vm create ${id} ${IMAGES}`)
  assert.equal(status, 0, err)
  return stage
}

/** Records a state, as if a pass had observed it; `settled` if nothing is left to do. */
function progress({ host: { store } }: CtlStage, state: ObservedState, settled = false): void {
  const generation = store.vms.get(id)?.generations.desired
  store.vms.recordProgress(id, {
    observed: { state, sinceMs: 1 },
    ...(settled && generation !== undefined ? { observedGeneration: generation } : {}),
    nowMs: 1,
  })
}

function fail(
  { host: { store } }: CtlStage,
  generation: number,
  code: FaultCode = 'image_unavailable',
  attempt = 2,
): void {
  store.vms.recordProgress(id, {
    observed: {
      state: 'failed',
      sinceMs: 1,
      fault: {
        code,
        step: 'image.ensure-fetched',
        message: 'fetching rootfs: 403',
        generation: generation as Generation,
        sinceMs: 1,
        attempt,
        nextAttemptAtMs: Date.now() + 30_000,
      },
    },
    nowMs: 1,
  })
}

/** Waits until the daemon holds a long poll of the wait. */
const polling = ({ host }: CtlStage): Promise<void> => eventually(() => host.waits.size === 1)

test('a wait prints each state on a line of its own, and ends when the generations meet', async (t) => {
  const stage = await stageWithVm(t)
  const { result, printed } = stage.start(`vm wait ${id}`)
  await polling(stage)
  progress(stage, 'starting')
  await eventually(() => printed().includes('starting'))
  await polling(stage)
  progress(stage, 'running', true)
  const { status, out, err } = await result
  assert.equal(status, 0)
  assert.equal(out, 'web-1: running, generation 1\n')
  assert.equal(err, 'web-1: pending, generation 0 of 1\nweb-1: starting, generation 0 of 1\n')
})

test('what a VM waits for again and again is printed once in each state', async (t) => {
  const stage = await stageWithVm(t)
  const { result } = stage.start(`vm wait ${id}`)
  const shows = async (state: ObservedState, waitingFor?: WaitReason): Promise<void> => {
    await polling(stage)
    const observed = { state, sinceMs: 1, ...given({ waitingFor }) }
    stage.host.store.vms.recordProgress(id, { observed, nowMs: 1 })
  }
  for (let ask = 1; ask <= 3; ask += 1) {
    await shows('stopping')
    await shows('stopping', 'the guest to end')
  }
  await shows('starting')
  await polling(stage)
  progress(stage, 'running', true)
  const { err } = await result
  assert.deepEqual(err.trimEnd().split('\n'), [
    'web-1: pending, generation 0 of 1',
    'web-1: stopping, generation 0 of 1',
    'web-1: stopping, waiting for the guest to end, generation 0 of 1',
    'web-1: starting, generation 0 of 1',
  ])
})

test('an error is shown when it comes, with the time of the next attempt, and the wait continues', async (t) => {
  const stage = await stageWithVm(t)
  const { result, printed } = stage.start(`vm wait ${id}`)
  await polling(stage)
  fail(stage, 1)
  await eventually(() => printed().includes('403'))
  assert.match(
    printed(),
    /web-1: image.ensure-fetched: fetching rootfs: 403 \(image_unavailable, attempt 2, next in \d+ s\)/,
  )
  await polling(stage)
  progress(stage, 'running', true)
  assert.equal((await result).status, 0)
})

test('with --fail-on-error the first error of the requested change ends the wait with status 1 and what helps', async (t) => {
  const stage = await stageWithVm(t)
  fail(stage, 1)
  const { status, err } = await stage.run(`vm wait ${id} --fail-on-error`)
  assert.equal(status, 1)
  assert.match(
    err,
    /vmhostctl: web-1: image.ensure-fetched: fetching rootfs: 403\n {2}the daemon keeps trying, .*\n {2}vmhostctl vm plan web-1 .*\n {2}Check the URL, .* send the request that named it again with a fresh one\.\n$/,
  )
  fail(stage, 1, 'disk_smaller_than_image')
  const onChange = await stage.run(`vm wait ${id} --fail-on-error`)
  assert.match(
    onChange.err,
    /\n {2}the daemon tries again slowly: only another.*\n {2}vmhostctl vm plan .*\n {2}Make the disk larger, .*\.\n$/,
  )
})

test('with --fail-on-error an error from before the newest change does not end the wait', async (t) => {
  const stage = await stageWithVm(t)
  fail(stage, 1)
  await stage.run(`vm stop ${id}`)
  const { result } = stage.start(`vm wait ${id} --fail-on-error`)
  await polling(stage)
  progress(stage, 'stopped', true)
  assert.equal((await result).status, 0)
})

test('with --fail-on-error a fault that an earlier look found ends a wait only if it stands when the VM is as desired', async (t) => {
  const stage = await stageWithVm(t)
  const { store } = stage.host
  const partialFaults = [
    { code: 'firewall_failed', step: 'network.inspect', message: 'nft does not answer' },
  ] as const
  progress(stage, 'running', true)
  store.vms.recordProgress(id, { observed: { state: 'running', sinceMs: 1, partialFaults }, nowMs: 1 })
  const strict = await stage.run(`vm wait ${id} --fail-on-error`)
  assert.equal(strict.status, 1)
  assert.match(strict.err, /web-1: network.inspect: nft does not answer/)
  const { result } = stage.start(`vm stop ${id} --wait --fail-on-error`)
  await polling(stage)
  progress(stage, 'stopped', true)
  assert.equal((await result).status, 0)
})

test('with --fail-on-error the fault that a start tries again does not end the wait, and its next one does', async (t) => {
  const stage = await stageWithVm(t)
  fail(stage, 1)
  const { result } = stage.start(`vm start ${id} --wait --fail-on-error`)
  await polling(stage)
  fail(stage, 1, 'image_unavailable', 3)
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: web-1: image.ensure-fetched: fetching rootfs: 403/)
})

test('a wait for a state fails if the VM is deleted', async (t) => {
  const stage = await stageWithVm(t)
  for (const line of [`vm wait ${id} --for running`, `vm wait ${id} --for ready`, `vm start ${id} --wait`]) {
    if (stage.host.store.vms.get(id) === undefined) await stage.run(`vm create ${id} ${IMAGES}`)
    const { result } = stage.start(line)
    await polling(stage)
    await stage.run(`vm rm ${id}`)
    stage.host.store.vms.forget(id, 1)
    const { status, err } = await result
    assert.equal(status, 1, line)
    assert.match(err, /web-1 was deleted before it was (running|ready)/)
  }
})

test('each VM is changed before the first is waited for', async (t) => {
  const stage = await stageWithVm(t)
  await stage.run(`vm create web-2 ${IMAGES}`)
  const { result } = stage.start(`vm stop ${id} web-2 --wait`)
  const { vms } = stage.host.store
  await eventually(() => vms.get('web-2' as VmId)?.desired.power === 'stopped')
  await polling(stage)
  settle(stage, 'web-1')
  settle(stage, 'web-2')
  assert.equal((await result).status, 0)
})

test('all waits of a command share the time', async (t) => {
  const stage = await stageWithVm(t)
  await stage.run(`vm create web-2 ${IMAGES}`)
  const slept: number[] = []
  const shell = {
    sleep: (ms: number, signal: AbortSignal) => {
      slept.push(ms)
      return delay(ms, undefined, { signal })
    },
  }
  const { status } = await stage.run(`vm wait ${id} web-2 --timeout 1s`, { shell })
  assert.equal(status, 3)
  assert.equal(slept.length, 2)
  assert.ok((slept[1] ?? 1000) < 100, `the second wait had ${slept[1]} ms`)
})

test('a wait that times out ends with status 3, and reports the state and how to continue', async (t) => {
  const stage = await stageWithVm(t)
  fail(stage, 1)
  const { status, out, err } = await stage.run(`vm wait ${id} --timeout 0`)
  assert.equal(status, 3)
  assert.equal(out, '')
  assert.match(
    err,
    /vmhostctl: web-1 is not as desired after 0 s; failed, generation 0 of 1\n {2}the reason: image/,
  )
  assert.match(err, /vmhostctl vm wait web-1 waits again, vmhostctl vm plan web-1 shows what comes next/)
})

for (const { power, goal, hint } of [
  { power: 'stopped', goal: 'running', hint: 'vm start web-1 starts it' },
  { power: 'stopped', goal: 'ready', hint: 'vm start web-1 starts it' },
  { power: 'paused', goal: 'running', hint: 'vm resume web-1 resumes it' },
  { power: 'running', goal: 'paused', hint: 'vm pause web-1 pauses it' },
  { power: 'running', goal: 'stopped', hint: 'vm stop web-1 stops it' },
] as const) {
  test(`a wait for ${goal} of a VM whose power is ${power} says what makes it so`, async (t) => {
    const stage = await stageWithVm(t)
    const verbs = { stopped: 'stop', paused: 'pause', running: 'start' }
    await stage.run(`vm ${verbs[power]} ${id}`)
    settle(stage, id)
    const { status, err } = await stage.run(`vm wait ${id} --for ${goal} --timeout 0`)
    assert.equal(status, 3)
    assert.ok(err.includes(`\n  its power is ${power}: vmhostctl ${hint}\n`), err)
    assert.doesNotMatch(err, /the daemon continues/)
  })
}

test('a wait for the end of a guest that may end by itself says that the daemon continues', async (t) => {
  const stage = await stageWithVm(t)
  await stage.run(`vm exit ${id} --restart never`)
  settle(stage, id)
  assert.match((await stage.run(`vm wait ${id} --for stopped --timeout 0`)).err, /\n {2}the daemon continues/)
})

test('a wait for a settled VM ends at once, even with a timeout of 0', async (t) => {
  const stage = await stageWithVm(t)
  progress(stage, 'running', true)
  assert.equal((await stage.run(`vm wait ${id} --timeout 0`)).status, 0)
})

test('a wait for a VM under deletion ends when it is gone, and so does rm --wait', async (t) => {
  const stage = await stageWithVm(t)
  const { result } = stage.start(`vm rm ${id} --wait`)
  await polling(stage)
  const second = stage.start(`vm wait ${id}`)
  await eventually(() => stage.host.waits.size === 2)
  stage.host.store.vms.forget(id, 0)
  assert.deepEqual(await result, {
    status: 0,
    out: 'web-1: gone\n',
    err: 'web-1: pending, generation 0 of 2\n',
  })
  assert.equal((await second.result).out, 'web-1: gone\n')
  const missing = await stage.run(`vm wait ${id}`)
  assert.equal(missing.status, 1)
  assert.match(missing.err, /there is no VM web-1/)
})

test('a deletion that is done before the first look ends a wait without a failure', async (t) => {
  const stage = await stageWithVm(t)
  const { host } = stage
  // The host is as fast as possible: the VM is gone in the turn after the answer to its deletion.
  const carryOut = (): void => {
    if (host.store.vms.get(id)?.deleting === true) host.store.vms.forget(id, 0)
  }
  Object.assign(host.context, { poke: carryOut })
  assert.deepEqual(await stage.run(`vm rm ${id} --wait`), {
    status: 0,
    out: 'web-1: gone\n',
    err: '',
  })
  assert.equal((await stage.run(`vm wait ${id} --for gone --timeout 0`)).out, 'web-1: gone\n')
})

test('a deletion names the command that waits for its end, and that waits until the VM is gone', async (t) => {
  const stage = await stageWithVm(t)
  const { out } = await stage.run(`vm rm ${id}`)
  const [, advised = ''] = /vmhostctl (vm wait .*)\n/.exec(out) ?? []
  assert.equal(advised, `vm wait ${id} --for gone`)
  assert.equal((await stage.run(`${advised} --timeout 0`)).status, 3)
  const { result } = stage.start(advised)
  await polling(stage)
  stage.host.store.vms.forget(id, 0)
  assert.equal((await result).status, 0)
  assert.equal((await stage.run(advised)).out, 'web-1: gone\n')
})

test('a mutation with --wait returns the state that the host reached, and for a program only that', async (t) => {
  const stage = await stageWithVm(t)
  const { result } = stage.start(`vm stop ${id} --wait --json`)
  await polling(stage)
  progress(stage, 'stopped', true)
  const { status, out, err } = await result
  assert.equal(status, 0)
  assert.equal(err, '')
  const vm = JSON.parse(out)
  assert.equal(vm.observed.state, 'stopped')
  assert.deepEqual(vm.generations, { desired: 2, observed: 2 })
})

test('on a terminal the wait is one line that moves, and is removed at the end', async (t) => {
  const stage = await stageWithVm(t)
  const ticks: (() => void)[] = []
  const every = (_ms: number, tick: () => void) => {
    ticks.push(tick)
    return () => ticks.splice(0)
  }
  const { result, printed } = stage.start(`vm wait ${id}`, { terminalColumns: 60, shell: { every } })
  await polling(stage)
  const shown = printed().length
  ticks[0]?.()
  const line = printed().slice(shown)
  assert.ok(line.startsWith('\r\u001B[K'), line)
  assert.match(line, / web-1: pending, generation 0 of 1 {2}\d+ s$/)
  assert.doesNotMatch(line, /\n/)
  progress(stage, 'running', true)
  const { err } = await result
  assert.ok(err.endsWith('\r\u001B[K'))
  assert.doesNotMatch(err, /\n/)
  assert.equal(ticks.length, 0)
})

test('a wait continues when the daemon goes away, as during an upgrade', async (t) => {
  const stage = await stageWithVm(t)
  const { result, printed } = stage.start(`vm wait ${id}`)
  await polling(stage)
  stage.host.storeIsOpen = false
  // Lets the poll go: the next one finds the daemon starting.
  progress(stage, 'starting')
  await eventually(() => printed().includes('no answer, trying again'))
  progress(stage, 'running', true)
  stage.host.storeIsOpen = true
  assert.equal((await result).status, 0)
})

test('a daemon without long polls is polled plainly, at a low rate', async (t) => {
  const { authority, server } = pki
  let asked = 0
  const vm = (observed: number) => ({
    id,
    observed: { state: 'starting' },
    generations: { desired: 1, observed },
    labels: {},
  })
  const https = createServer(
    { ca: authority.certificate, cert: server.certificate, key: server.key, requestCert: true },
    (_request, response) => {
      asked += 1
      const settled = asked === 3 ? 1 : 0
      response.writeHead(200, { 'content-type': 'application/json', etag: `"${settled}"` })
      response.end(JSON.stringify(vm(settled)))
    },
  ).listen(0, '127.0.0.1')
  t.after(() => https.close())
  await once(https, 'listening')
  const url = `https://127.0.0.1:${(https.address() as AddressInfo).port}`
  const slept: number[] = []
  const sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    // Only the bound of the wait itself is long.
    if (ms > 1000)
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    slept.push(ms)
  }
  const { status } = await ctl(['vm', 'wait', id, '--profile', writeProfile(t, { pki, url })], {
    shell: { sleep },
  })
  assert.equal(status, 0)
  assert.equal(asked, 3)
  assert.equal(slept.length, 1)
})
