import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { atEnd, undoAll } from './at-end.ts'

/** Returns undos that record their names; those named in `failing` throw. */
const undosOf = (names: readonly string[], done: string[], failing: readonly string[] = []) =>
  names.map((name) => async () => {
    await Promise.resolve()
    done.push(name)
    if (failing.includes(name)) throw new Error(`${name} failed`)
  })

test('everything is undone, the newest first', async () => {
  const done: string[] = []
  await undoAll(undosOf(['first', 'second', 'third'], done))
  assert.deepEqual(done, ['third', 'second', 'first'])
})

test('a failing undo does not stop the others, and its error is reported', async () => {
  const done: string[] = []
  await assert.rejects(undoAll(undosOf(['first', 'second'], done, ['second'])), /^Error: second failed$/)
  assert.deepEqual(done, ['second', 'first'])
  await assert.rejects(undoAll(undosOf(['first', 'second'], [], ['first', 'second'])), (error) => {
    assert.ok(error instanceof AggregateError)
    assert.match(error.message, /failed 2 times: Error: second failed; Error: first failed$/)
    assert.equal(error.errors.length, 2)
    return true
  })
})

test('a test has one hook, which runs all that was registered', async () => {
  const hooks: (() => unknown)[] = []
  const t = { after: (hook: () => unknown) => hooks.push(hook) } as unknown as TestContext
  const done: string[] = []
  for (const undo of undosOf(['first', 'second'], done)) atEnd(t, undo)
  assert.equal(hooks.length, 1)
  await hooks[0]?.()
  assert.deepEqual(done, ['second', 'first'])
})
