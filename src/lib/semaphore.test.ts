import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Semaphore, Turns } from './semaphore.ts'

/** A task that reports that it runs, and ends on request. */
function task(): { run: () => Promise<void>; started: Promise<void>; end: () => void } {
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const run = (): Promise<void> => {
    started.resolve()
    return ended.promise
  }
  return { run, started: started.promise, end: ended.resolve }
}

test('tasks take their turns in the order they came', async () => {
  const semaphore = new Semaphore(1)
  const order: number[] = []
  await Promise.all([1, 2, 3].map((n) => semaphore.run(async () => void order.push(n))))
  assert.deepEqual(order, [1, 2, 3])
})

test('a task that may wait comes after all others, until it may no longer wait', async () => {
  const semaphore = new Semaphore(1)
  const patient = new Set([1, 2])
  const order: number[] = []
  const give = await semaphore.take()
  const come = async (n: number): Promise<void> => {
    const giveBack = await semaphore.take(undefined, () => patient.has(n))
    order.push(n)
    giveBack()
  }
  const all = [1, 2, 3, 4].map(come)
  patient.delete(2)
  give()
  await Promise.all(all)
  assert.deepEqual(order, [2, 3, 4, 1])
})

test('a task that fails passes its place on', async () => {
  const semaphore = new Semaphore(1)
  await assert.rejects(
    semaphore.run(() => Promise.reject(new Error('no'))),
    /no/,
  )
  assert.equal(await semaphore.run(async () => 'next'), 'next')
})

test('a task that gives up waiting never runs and blocks no other', async () => {
  const semaphore = new Semaphore(1)
  const [first, third] = [task(), task()]
  const controller = new AbortController()
  const reason = new Error('too late')
  const running = semaphore.run(first.run)
  await first.started
  let ran = false
  const waiting = semaphore.run(async () => void (ran = true), controller.signal)
  const last = semaphore.run(third.run)
  controller.abort(reason)
  await assert.rejects(waiting, reason)
  first.end()
  await running
  await third.started
  third.end()
  await last
  assert.equal(ran, false)
})

test("an abort after the turn has come is the task's own matter, and takes no place from those that wait", async () => {
  const semaphore = new Semaphore(1)
  const controller = new AbortController()
  const give = await semaphore.take()
  const only = task()
  const running = semaphore.run(only.run, controller.signal)
  const waiting = semaphore.run(async () => 'ran')
  give()
  await only.started
  controller.abort()
  only.end()
  await running
  assert.equal(await waiting, 'ran')
})

test('a place that was taken is free when it is given back, and not before', async () => {
  const semaphore = new Semaphore(1)
  const give = await semaphore.take()
  let ran = false
  const waiting = semaphore.run(async () => void (ran = true))
  await Promise.resolve()
  assert.equal(ran, false)
  give()
  await waiting
  assert.equal(ran, true)
  await assert.rejects(semaphore.take(AbortSignal.abort(new Error('no'))), /no/)
})

test('tasks that may wait keep the order in which they came', async () => {
  const semaphore = new Semaphore(1)
  const order: number[] = []
  const give = await semaphore.take()
  const come = async (n: number): Promise<void> => {
    const giveBack = await semaphore.take(undefined, () => true)
    order.push(n)
    giveBack()
  }
  const all = [1, 2, 3].map(come)
  give()
  await Promise.all(all)
  assert.deepEqual(order, [1, 2, 3])
})

test('a task that says nothing does not wait behind one that may', async () => {
  const semaphore = new Semaphore(1)
  const order: string[] = []
  const give = await semaphore.take()
  const waits = async (): Promise<void> => {
    const giveBack = await semaphore.take(undefined, () => true)
    order.push('patient')
    giveBack()
  }
  const patient = waits()
  const prompt = semaphore.run(async () => void order.push('prompt'))
  give()
  await Promise.all([patient, prompt])
  assert.deepEqual(order, ['prompt', 'patient'])
})

test('the tasks of one key take turns, also after one that gave up, and wait for no other key', async () => {
  const turns = new Turns<string>()
  const never = new AbortController().signal
  const [first, second, third] = [task(), task(), task()]
  const running = turns.run('a', first.run, never)
  await first.started
  const gone = AbortSignal.abort(new Error('too late'))
  await assert.rejects(
    turns.run('a', async () => {}, gone),
    /too late/,
  )
  const begun: string[] = []
  const waiting = [second, third].map((one, at) =>
    turns.run('a', () => (begun.push(`task ${at + 2}`), one.run()), never),
  )
  await turns.run('b', async () => {}, never)
  assert.equal(begun.length, 0)
  first.end()
  await running
  await second.started
  assert.deepEqual(begun, ['task 2'])
  const last = turns.run('a', async () => void begun.push('task 4'), never)
  second.end()
  await third.started
  assert.deepEqual(begun, ['task 2', 'task 3'])
  third.end()
  await Promise.all([...waiting, last])
  assert.deepEqual(begun, ['task 2', 'task 3', 'task 4'])
})
