import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { MANAGER, MANAGER_PATH } from './bus-names.ts'
import type { BusSignal } from './early-signals.ts'
import { runJob } from './run-job.ts'

const UNIT = 'vmhost-web-1.service'
const JOB = '/org/freedesktop/systemd1/job/7'
const never = new AbortController().signal

/** A bus whose signals and loss the test sends. */
function bus() {
  const signals = new Set<(signal: BusSignal) => void>()
  const losses = new Set<(fault: HostFault) => void>()
  const add = <T>(set: Set<T>, listener: T): (() => void) => {
    set.add(listener)
    return () => void set.delete(listener)
  }
  return {
    onSignal: (listener: (signal: BusSignal) => void) => add(signals, listener),
    onLoss: (listener: (fault: HostFault) => void) => add(losses, listener),
    removed: (job: string, unit: string, result: string) => {
      const body = [7, job, unit, result]
      for (const notify of signals)
        notify({ path: MANAGER_PATH, interface: MANAGER, member: 'JobRemoved', body })
    },
    lose: (fault: HostFault) => {
      for (const notify of losses) notify(fault)
    },
    listeners: () => signals.size + losses.size,
  }
}

test('a job that ends before the call is answered is not missed', async () => {
  const made = bus()
  const result = runJob(made, UNIT, never, async () => {
    made.removed(JOB, UNIT, 'done')
    return [JOB]
  })
  assert.equal(await result, 'done')
  assert.equal(made.listeners(), 0)
})

test('a job is awaited, whatever other jobs end', async () => {
  const made = bus()
  const result = runJob(made, UNIT, never, async () => [JOB])
  await new Promise(setImmediate)
  made.removed('/org/freedesktop/systemd1/job/6', UNIT, 'canceled')
  made.removed(JOB, 'vmhost-web-2.service', 'done')
  made.removed(JOB, UNIT, 'failed')
  assert.equal(await result, 'failed')
})

test('a refused call ends the wait', async () => {
  const made = bus()
  const refusal = new Error('no')
  await assert.rejects(
    runJob(made, UNIT, never, () => Promise.reject(refusal)),
    refusal,
  )
  assert.equal(made.listeners(), 0)
})

test('a lost connection ends the wait for the answer, and for the job', async () => {
  const fault = new HostFault('systemd_unavailable', 'waiting for systemd')
  for (const enqueue of [() => new Promise<never>(() => {}), async () => [JOB]]) {
    const made = bus()
    const result = runJob(made, UNIT, never, enqueue)
    await new Promise(setImmediate)
    made.lose(fault)
    await assert.rejects(result, fault)
    assert.equal(made.listeners(), 0)
  }
})

test('an abort ends the wait with its reason', async () => {
  const made = bus()
  const controller = new AbortController()
  const reason = new Error('the VM is being deleted')
  const result = runJob(made, UNIT, controller.signal, async () => [JOB])
  await new Promise(setImmediate)
  controller.abort(reason)
  await assert.rejects(result, reason)
  assert.equal(made.listeners(), 0)
})

test('nothing is sent to systemd if the signal is already aborted', async () => {
  const asked = (): never => assert.fail('asked')
  const reason = new Error('too late')
  await assert.rejects(runJob(bus(), UNIT, AbortSignal.abort(reason), asked), reason)
})
